"""Links that cost money: asked rarely while they are bad, used for what no free one can do, never beyond their budget."""

import pytest

from edge.scheduling.settings import LinkSettings
from pipelines.result import AnsweredBy
from tests.support.virtual import LADDER, MS, World, links, world

FPS_25 = 40 * MS


@pytest.mark.parametrize(("metered", "least", "most"), [(False, 480, 620), (True, 30, 75)])
def test_a_metered_link_that_stays_bad_is_asked_rarely(metered, least, most):
    w = world(links=links("lte", metered=metered))
    w.rtt_us = lambda _: 300 * MS
    w.run_frames(50, every_us=FPS_25)
    before = w.pings
    w.run_until(w.now_us + 60_000 * MS - 2_500 * MS)
    assert least <= w.pings - before <= most
    assert w.share(AnsweredBy.NEAR, first_seq=10) == 1.0


def test_a_metered_link_comes_back_all_the_same():
    w = world(links=links("lte", metered=True))
    w.rtt_us = lambda _: 300 * MS
    w.run_frames(500, every_us=FPS_25)
    w.rtt_us = lambda _: 20 * MS
    w.run_frames(600, every_us=FPS_25, first_seq=501)
    assert w.share(AnsweredBy.FAR, first_seq=1075) >= 0.95


def paid_and_free(*, free_rtt_us: int) -> World:
    """A quick link that costs money, and one that does not."""
    w = world(
        connect=False,
        ladder=LADDER,
        links=(LinkSettings(name="lte", metered=True), LinkSettings(name="cable")),
    )
    w.wires["cable"].rtt_us = lambda _: free_rtt_us
    w.connect()
    w.run_until(w.now_us + 300 * MS)
    return w


def test_a_link_that_costs_nothing_carries_the_frames_although_another_is_a_little_quicker():
    w = paid_and_free(free_rtt_us=35 * MS)
    w.run_frames(100, every_us=FPS_25)
    assert {link for _, key, link in w.sent_over if key[1] > 50} == {"cable"}
    assert w.share(AnsweredBy.FAR) >= 0.95
    assert w.late() == []


def test_a_metered_link_carries_them_when_the_other_could_not_in_time():
    w = paid_and_free(free_rtt_us=35 * MS)
    w.run_frames(30, every_us=FPS_25)
    w.wires["cable"].rtt_us = lambda _: None
    w.run_frames(100, every_us=FPS_25, first_seq=31)
    assert {link for _, key, link in w.sent_over if key[1] > 60} <= {"lte"}
    assert w.share(AnsweredBy.FAR, first_seq=60) >= 0.95
    assert w.late() == []


def test_a_data_budget_is_never_exceeded_by_frames_and_near_answers_the_rest():
    budget = 1_000_000
    w = world(links=links("lte", bytes_per_hour=budget))
    w.run_frames(200, every_us=FPS_25)
    assert 0.7 * budget <= w.sent_bytes <= budget
    assert w.share(AnsweredBy.NEAR, first_seq=100) >= 0.95
    assert w.late() == []


def test_backfill_is_paid_from_the_same_data_budget():
    w = world(links=links("lte", bytes_per_day=1_000_000))
    w.scheduler.spent("lte", 950_000, w.now_us)
    w.run_frames(20, every_us=FPS_25)
    assert w.sent_bytes == 0
    assert w.share(AnsweredBy.NEAR) == 1.0


def test_a_data_budget_that_is_used_up_is_the_reason_an_answer_gives():
    w = world(links=links("lte", bytes_per_hour=1_000_000))
    w.scheduler.spent("lte", 950_000, w.now_us)
    w.run_frames(5, every_us=FPS_25)
    assert {give.reason for give in w.given.values()} == {"data budget used up"}


def test_pings_leave_a_small_data_budget_room_to_refill_and_frames_go_again():
    budget = 400_000
    w = world(links=links("lte", bytes_per_hour=budget))
    w.scheduler.spent("lte", budget, w.now_us)
    pings = w.pings
    w.run_until(w.now_us + 1_800_000 * MS)
    assert 10 <= w.pings - pings <= 350, "they take a quarter of what refills"
    left_bytes = w.scheduler.ways["lte"].budget.rest_bytes(w.now_us)
    assert left_bytes is not None
    assert left_bytes > 0.3 * budget
    w.run_frames(20, every_us=FPS_25)
    assert w.sent_bytes > 0
