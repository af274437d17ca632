"""The link over time: a line when its state changes, and no more than five a second while it does not."""

from edge.link_log import EVERY_US, FRESH_US, LinkLog, LinkSight
from edge.scheduling.rung import Rung, RungCost
from edge.scheduling.scheduler import Scheduler, SchedulerSettings
from protos.wire.session import Credit


def scheduler():
    settings = SchedulerSettings(
        deadline_us=100_000,
        margin_us=4_000,
        policy="deadline",
        hedge="late",
        min_p=0.25,
        byte_price=0.0015,
        rung=Rung(codec="jpeg", quality=50, scale=1.0, accuracy=1.0),
        near_accuracy=0.5,
        near_prior_us=15_000,
        fall_back_above_us=100_000,
        return_below_us=50_000,
    )
    return Scheduler(settings, {"door": RungCost(100_000)})


class House:
    def __init__(self):
        self.scheduler = scheduler()
        self.seen: list[LinkSight] = []
        self.log = LinkLog(
            name="lte",
            scheduler=self.scheduler,
            write=self.seen.append,
            unix_us=lambda: 1_700_000_000_000_000,
        )


def test_a_quiet_link_has_a_line_every_200_ms_however_often_it_is_looked_at():
    house = House()
    for now_us in range(0, 1_000_000, 1_000):
        house.log.look("", now_us)
    assert len(house.seen) == 1_000_000 // EVERY_US


def test_a_change_of_state_has_a_line_at_once():
    house = House()
    house.log.look("", 0)
    house.scheduler.welcomed(1, Credit(frames=4, bytes=1 << 20), 1_000)
    house.log.look("", 1_000)
    house.log.look("the worker refuses", 2_000)
    house.log.look("the worker refuses", 3_000)
    said = [(s.connected, s.in_budget, s.reason) for s in house.seen]
    assert said == [
        (False, False, "not connected"),
        (True, False, "not measured yet"),
        (True, False, "the worker refuses"),
    ]


def test_a_round_trip_is_told_while_it_is_fresh_and_not_for_ever():
    house = House()
    house.scheduler.far.link.observe_rtt(23_000, 1_000_000)
    house.log.look("", 1_000_000)
    house.log.look("", 1_000_000 + FRESH_US)
    house.log.look("", 1_000_000 + FRESH_US + EVERY_US)
    assert [s.rtt_us for s in house.seen] == [23_000, 23_000, None]
    assert {s.rtt_min_us for s in house.seen} == {23_000}


def test_every_line_names_the_link_and_its_band():
    house = House()
    house.log.look("", 0)
    (sight,) = house.seen
    assert (sight.link, sight.fall_back_above_us, sight.return_below_us) == ("lte", 100_000, 50_000)
    assert sight.near_guard_us > 0
    assert sight.unix_us == 1_700_000_000_000_000
