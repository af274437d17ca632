"""What a scheduler shares out: bytes by the hour, near time by weight, and what a rung will weigh."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.scheduling.fair_share import FairShare
from edge.scheduling.far.data_budget import HOUR_US, DataBudget
from edge.scheduling.ladder_cost import LadderCost
from edge.scheduling.rung import Rung
from pipelines.result import Priority
from tests.support.virtual import LADDER

SECOND_US = 1_000_000


def test_a_budget_spent_refills_evenly():
    budget = DataBudget(bytes_per_hour=3_600_000)
    budget.spend(3_600_000, 0)
    assert budget.spent(0)
    assert budget.left_bytes(Priority.HIGH, HOUR_US // 2) == pytest.approx(0.48 * 3_600_000, abs=2)


def test_low_priority_stops_first_and_the_day_binds_as_well_as_the_hour():
    budget = DataBudget(bytes_per_hour=1_000_000, bytes_per_day=1_500_000)
    budget.spend(850_000, 0)
    left = [budget.left_bytes(p, 0) for p in (Priority.LOW, Priority.NORMAL, Priority.HIGH)]
    assert left == [-50_000, 50_000, 130_000]
    hour_later = budget.left_bytes(Priority.HIGH, HOUR_US)
    assert hour_later is not None
    assert hour_later < 700_000


def test_without_a_budget_nothing_is_counted_against_anybody():
    budget = DataBudget()
    budget.spend(10**12, 0)
    assert budget.left_bytes(Priority.LOW, 0) is None
    assert not budget.spent(0)


@given(spends=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 50_000)), max_size=40))
def test_what_a_budget_lets_through_is_at_most_a_bucket_and_its_refill(spends):
    budget = DataBudget(bytes_per_hour=100_000)
    sent = now_us = 0
    for wait_us, size_bytes in spends:
        now_us += wait_us
        left = budget.left_bytes(Priority.NORMAL, now_us)
        if left is not None and left >= size_bytes:
            budget.spend(size_bytes, now_us)
            sent += size_bytes
    assert sent <= 90_000 + 100_000 * now_us / HOUR_US + 1


def test_who_had_least_for_its_weight_comes_first():
    share = FairShare()
    for stream, priority in (("a", Priority.HIGH), ("b", Priority.LOW)):
        share.asked(stream, priority, 0)
        share.charge(stream, 40, 0)
    assert share.rank("a", Priority.HIGH, 1) < share.rank("b", Priority.LOW, 1)
    assert share.ahead("b", 1)
    assert not share.ahead("a", 1)


def test_a_stream_that_got_nothing_for_a_second_comes_before_all():
    share = FairShare()
    share.asked("a", Priority.HIGH, 0)
    share.asked("b", Priority.LOW, 0)
    share.charge("b", 1_000, 0)
    share.charge("a", 1, SECOND_US)
    assert share.starved("b", SECOND_US)
    assert share.rank("b", Priority.LOW, SECOND_US) < share.rank("a", Priority.HIGH, SECOND_US)


def test_what_was_used_long_ago_is_forgotten():
    share = FairShare()
    for stream in "ab":
        share.asked(stream, Priority.NORMAL, 0)
    share.charge("a", 100, 0)
    share.charge("a", 1, 30 * SECOND_US)
    share.charge("b", 10, 30 * SECOND_US)
    assert share.rank("a", Priority.NORMAL, 30 * SECOND_US) < share.rank("b", Priority.NORMAL, 30 * SECOND_US)


def test_one_rung_seen_teaches_the_others_how_busy_the_picture_is():
    cost = LadderCost(LADDER, 320 * 240)
    before = [cost.size_bytes(rung) for rung in range(4)]
    for _ in range(30):
        cost.observe(0, size_bytes=3 * before[0], encode_us=4_000)
    after = [cost.size_bytes(rung) for rung in range(4)]
    assert [a / b for a, b in zip(after, before, strict=True)] == pytest.approx([3.0] * 4, rel=0.2)


def test_a_rung_that_differs_from_the_others_is_learnt_for_itself():
    cost = LadderCost(LADDER, 320 * 240)
    priors = [rung.prior_bytes(320 * 240) for rung in LADDER]
    for _ in range(100):
        cost.observe(0, size_bytes=priors[0], encode_us=4_000)
        cost.observe(2, size_bytes=2 * priors[2], encode_us=2_000)
    ratio = (cost.size_bytes(2) / priors[2]) / (cost.size_bytes(0) / priors[0])
    assert ratio == pytest.approx(2.0, rel=0.2)


def test_encode_time_of_a_rung_never_used_is_that_of_its_nearest_scale():
    cost = LadderCost(LADDER, 320 * 240)
    cost.observe(0, size_bytes=10_000, encode_us=9_000)
    cost.observe(3, size_bytes=1_000, encode_us=1_000)
    assert [cost.encode_us(rung) for rung in range(4)] == [9_000, 9_000, 1_000, 1_000]


@given(quality=st.integers(1, 100), scale=st.floats(0.1, 1.0))
def test_the_guess_at_a_payload_grows_with_quality_and_scale(quality, scale):
    def guess(q: int, s: float) -> int:
        return Rung(codec="jpeg", quality=q, scale=s, accuracy=1.0).prior_bytes(640 * 480)

    assert guess(quality, scale) <= guess(min(100, quality + 1), scale)
    assert guess(quality, scale) <= guess(quality, min(1.0, scale * 1.1))
