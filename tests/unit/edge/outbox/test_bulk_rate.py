"""The bulk lane's rate beside live frames: up while nothing queues, down when something does."""

from edge.outbox.sending.bulk_rate import CUT, LEAST_BYTES_PER_S, OF_BEST, STANDING_US, BulkRate

ROUND_US = 100_000
START = 100_000.0


def rounds(rate: BulkRate, now_us: int, count: int, *, beyond_us: int = 0, used: float = 1.0) -> int:
    """`count` rounds of ten chunks each, all acknowledged."""
    for _ in range(count):
        for _ in range(10):
            now_us += ROUND_US // 10
            size_bytes = int(rate.bytes_per_s * used * ROUND_US / 10 / 1e6)
            rate.sent(size_bytes)
            rate.acked(size_bytes, beyond_us=beyond_us, round_us=40_000, now_us=now_us)
    return now_us


def test_the_rate_rises_while_it_is_used_and_nothing_queues() -> None:
    rate = BulkRate(START)
    rounds(rate, 0, 10)
    assert rate.tried
    assert rate.bytes_per_s > 5 * START


def test_a_rate_that_is_not_used_does_not_rise() -> None:
    rate = BulkRate(START)
    rounds(rate, 0, 10, used=0.3)
    assert rate.bytes_per_s == START


def test_a_queue_of_live_frames_lowers_it_once_and_not_for_every_look() -> None:
    rate = BulkRate(START)
    now_us = rounds(rate, 0, 5)
    before = rate.bytes_per_s
    for _ in range(4):
        rate.queued(now_us, round_us=40_000)
        now_us += 50_000
    assert rate.bytes_per_s == CUT * before
    rate.queued(now_us, round_us=40_000)
    assert rate.bytes_per_s < CUT * before


def test_a_standing_queue_of_its_own_lowers_it_and_one_late_chunk_does_not() -> None:
    rate = BulkRate(START)
    now_us = rounds(rate, 0, 3)
    before = rate.bytes_per_s
    rate.acked(1, beyond_us=2 * STANDING_US, round_us=40_000, now_us=now_us + 1)
    now_us = rounds(rate, now_us, 1)
    assert rate.bytes_per_s >= before
    before = rate.bytes_per_s
    rounds(rate, now_us, 2, beyond_us=2 * STANDING_US)
    assert rate.bytes_per_s < before


def test_it_nears_the_rate_that_met_a_queue_slowly_and_leaves_it_behind_fast() -> None:
    rate = BulkRate(START)
    now_us = rounds(rate, 0, 5)
    met = rate.bytes_per_s
    rate.queued(now_us, round_us=40_000)
    near = 0
    while rate.bytes_per_s < 1.02 * met:
        now_us = rounds(rate, now_us, 1)
        near += 1
    assert near > 10
    before = rate.bytes_per_s
    rounds(rate, now_us, 2)
    assert rate.bytes_per_s > 1.15 * before


def test_a_machine_that_stumbles_again_and_again_costs_no_more_than_half_of_what_went() -> None:
    rate = BulkRate(START)
    now_us = rounds(rate, 0, 5)
    reached = rate.bytes_per_s
    for _ in range(20):
        now_us += 200_000
        rate.queued(now_us, round_us=40_000)
    assert 0.7 * OF_BEST * reached < rate.bytes_per_s <= OF_BEST * reached


def test_it_never_falls_to_nothing() -> None:
    rate = BulkRate(START)
    now_us = 0
    for _ in range(200):
        now_us += 1_000_000
        rate.queued(now_us, round_us=40_000)
    assert rate.bytes_per_s == LEAST_BYTES_PER_S


def test_a_new_beginning_forgets_what_was() -> None:
    rate = BulkRate(START)
    now_us = rounds(rate, 0, 5)
    rate.queued(now_us, round_us=40_000)
    rate.begin(START, now_us)
    assert (rate.bytes_per_s, rate.tried) == (START, False)
    rounds(rate, now_us, 2)
    assert rate.bytes_per_s > 1.2 * START
