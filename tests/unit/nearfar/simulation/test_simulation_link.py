"""The link in virtual time behaves as TCP over a bottleneck does."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar.simulation.clock import Clock
from nearfar.simulation.dice import Dice, Durations, Purpose
from nearfar.simulation.link.model import Connection, LinkModel
from nearfar.simulation.link.packet_loss import packets_lost, repair_us
from nearfar.simulation.link.trace import LinkTrace
from nearfar.simulation.steps import Steps
from tests.support.simulated import MS, S, link


class Wire:
    """One link with its arrivals noted."""

    def __init__(self, trace: LinkTrace, seed: int = 0) -> None:
        self.clock = Clock()
        self.welcomed: list[tuple[int, int]] = []
        self.arrived: dict[int, int] = {}
        self.model = LinkModel(self.clock, trace, Dice(seed), welcomed=self._welcomed)
        self.model.start()

    def _welcomed(self, connection: Connection) -> None:
        self.welcomed.append((self.clock.now_us, connection.number))

    def run(self, until_us: int) -> None:
        while (due_us := self.clock.next_us()) is not None and due_us <= until_us:
            self.clock.advance(due_us)
            self.clock.run_due()
        self.clock.advance(until_us)

    def send(self, number: int, size_bytes: int = 1000, connection: Connection | None = None) -> None:
        via = connection or self.model.current
        assert via is not None
        via.up.send(
            size_bytes,
            lambda: self.arrived.__setitem__(number, self.clock.now_us),
            purpose=Purpose.FRAME_LOST,
            number=number,
        )


def test_a_connection_is_welcomed_after_three_round_trips():
    wire = Wire(link(rtt_ms=40))
    wire.run(1 * S)
    ((at_us, number),) = wire.welcomed
    assert number == 1
    assert 120 * MS <= at_us < 125 * MS


def test_a_message_takes_its_serialisation_and_half_a_round_trip():
    wire = Wire(link(mbit=8, rtt_ms=40))
    wire.run(1 * S)
    wire.send(1, 10_000)
    wire.run(2 * S)
    assert wire.arrived[1] == 1 * S + 10 * MS + 20 * MS


def test_the_head_is_there_before_the_body_and_the_spread_is_the_bandwidth():
    wire = Wire(link(mbit=8, rtt_ms=40))
    wire.run(1 * S)
    wire.send(1, 160)
    wire.send(2, 12_000)
    wire.run(2 * S)
    spread_us = wire.arrived[2] - wire.arrived[1]
    assert spread_us == 12 * MS


def test_messages_of_one_connection_arrive_in_order_even_when_the_delay_falls():
    wire = Wire(link(rtt_ms=200, rtt_steps=((1_010 * MS, 20),)))
    wire.run(1 * S)
    wire.send(1)
    wire.run(1_020 * MS)
    wire.send(2)
    wire.run(3 * S)
    assert wire.arrived[1] <= wire.arrived[2]
    assert wire.arrived[1] > 1_090 * MS


def test_the_first_large_message_waits_for_the_window_and_the_next_does_not():
    wire = Wire(link(mbit=800, rtt_ms=40))
    wire.run(1 * S)
    wire.send(1, 40_000)
    wire.run(2 * S)
    wire.send(2, 40_000)
    wire.run(3 * S)
    assert wire.arrived[1] - 1 * S > 55 * MS
    assert wire.arrived[2] - 2 * S < 25 * MS


def test_after_a_long_blackhole_the_old_connection_stays_silent_and_a_fresh_one_is_quick():
    healed_us = 22 * S
    wire = Wire(link(rtt_ms=40, outage=(2 * S, healed_us)))
    wire.run(2 * S + MS)
    old = wire.model.current
    wire.send(1)
    wire.run(healed_us)
    wire.model.open_fresh()
    wire.run(healed_us + 300 * MS)
    assert wire.welcomed[-1][0] - healed_us < 130 * MS
    assert wire.model.current is not old
    wire.send(2)
    wire.run(60 * S)
    assert wire.arrived[2] < healed_us + 400 * MS
    # 240 ms doubled six times: the seventh attempt is the first after the heal.
    assert wire.arrived[1] - (2 * S + MS) >= 127 * 240 * MS


def test_after_a_short_blackhole_the_connection_resumes_by_itself():
    wire = Wire(link(rtt_ms=40, outage=(2 * S, 2_300 * MS)))
    wire.run(2 * S + MS)
    wire.send(1)
    wire.send(2)
    wire.run(5 * S)
    assert 2_300 * MS < wire.arrived[1] < 2_800 * MS
    assert wire.arrived[1] < wire.arrived[2]


def test_attempts_into_a_blackhole_are_given_up_and_made_again():
    wire = Wire(link(outage=(1, 7 * S)))
    for tenth in range(1, 90):
        wire.run(tenth * 100 * MS)
        wire.model.open_fresh()
    wire.run(10 * S)
    assert wire.welcomed
    assert 7 * S < wire.welcomed[0][0] < 9_200 * MS


def test_a_queue_that_is_full_drops_the_tail_and_costs_a_round_trip():
    shallow = link(mbit=1, rtt_ms=40)  # 200 ms hold 25 kB
    roomy = replace(shallow, up=replace(shallow.up, queue_bytes=Steps.constant(1_000_000)))
    arrived_us = []
    for trace in (shallow, roomy):
        wire = Wire(trace)
        wire.run(1 * S)
        for number in range(4):
            wire.send(number, 12_000)
        wire.run(30 * S)
        arrived_us.append(wire.arrived[3])
        assert wire.model.up.carried_bytes < 48_000 + 1_000
    assert arrived_us[0] - arrived_us[1] == 40 * MS


def test_loss_costs_a_round_trip_in_the_middle_and_a_time_out_for_a_single_packet():
    dice = Dice(1)
    hits = [
        packets_lost(30_000, dice, share=0.05, burst=1, purpose=Purpose.FRAME_LOST, number=i)
        for i in range(2000)
    ]
    assert 0.58 <= sum(n > 0 for n in hits) / 2000 <= 0.72  # 1 − .95^21 = .66
    repairs = [
        repair_us(30_000, dice, rtt_us=40 * MS, share=0.0, purpose=Purpose.FRAME_LOST, number=i)
        for i in range(500)
    ]
    assert set(repairs) == {40 * MS, 82 * MS}
    assert 0.05 < sum(r == 82 * MS for r in repairs) / 500 < 0.25  # 3 of 21 packets have none behind them
    assert repair_us(500, dice, rtt_us=40 * MS, share=0.0, purpose=Purpose.FRAME_LOST, number=1) == 240 * MS


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 60_000), min_size=1, max_size=12),
    mbit=st.floats(0.5, 100),
    loss=st.sampled_from([0.0, 0.02, 0.2]),
    jitter=st.sampled_from([0, 5_000, 40_000]),
    outage=st.sampled_from([None, (1_050 * MS, 1_300 * MS), (1_050 * MS, 6 * S)]),
    seed=st.integers(0, 99),
)
def test_whatever_the_link_does_messages_arrive_once_in_order_and_not_before_they_could(
    *, sizes, mbit, loss, jitter, outage, seed
):
    trace = link(mbit=mbit, rtt_ms=30, loss=loss, jitter_us=jitter, outage=outage)
    wire = Wire(trace, seed)
    wire.run(1 * S if not loss else 10 * S)
    if wire.model.current is None:
        return  # every greeting was lost
    sent = {}
    for number, size_bytes in enumerate(sizes):
        sent[number] = wire.clock.now_us
        wire.send(number, size_bytes)
        wire.run(wire.clock.now_us + 20 * MS)
    wire.run(wire.clock.now_us + 400 * S)
    assert sorted(wire.arrived) == list(range(len(sizes)))
    times = [wire.arrived[number] for number in range(len(sizes))]
    assert times == sorted(times)
    for number, size_bytes in enumerate(sizes):
        assert wire.arrived[number] >= sent[number] + int(size_bytes / (mbit / 8))


def test_chance_is_the_same_for_the_same_question_and_even_over_many():
    dice, again = Dice(7), Dice(7)
    values = [dice.uniform(Purpose.NEAR, i) for i in range(10_000)]
    assert values == [again.uniform(Purpose.NEAR, i) for i in range(10_000)]
    assert values != [Dice(8).uniform(Purpose.NEAR, i) for i in range(10_000)]
    assert abs(sum(values) / 10_000 - 0.5) < 0.01
    assert abs(sum(v < 0.1 for v in values) / 10_000 - 0.1) < 0.01


def test_durations_are_drawn_by_quantile():
    durations = Durations([30, 10, 20])
    assert [durations.at(u) for u in (0.0, 0.4, 0.99)] == [10, 20, 30]
    assert durations.median_us == 20
