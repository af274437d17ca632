"""Each part of what a link, a worker, an encoder and this machine are believed to take: taken away, answers are late."""

import pytest

from edge.scheduling.far.link_estimate import LOAD_SPAN_US, RECENT_SPAN_US, RTT_MIN_SPAN_US, LinkEstimate
from edge.scheduling.ladder_cost import LadderCost
from edge.scheduling.rung import Rung
from edge.scheduling.wake_up import PRIOR_COMMIT_US, WakeUp
from pipelines.result import Load, WorkerTiming

MS = 1000
START_US = 1_000_000
SIZE = 25_000
ANY_CLOCK_US = 10**12


def replied(
    estimate: LinkEstimate, *, sent_us: int, head_ms: int, spread_ms: int, back_ms: int, frame: object = None
) -> int:
    """A frame whose head took `head_ms`, its body `spread_ms` more, its result `back_ms`; the worker took 20 ms."""
    head_us = ANY_CLOCK_US + sent_us + head_ms * MS
    timing = WorkerTiming(
        head_mono_us=head_us, body_mono_us=head_us + spread_ms * MS, detect_us=20 * MS, resident_us=20 * MS
    )
    arrived_us = sent_us + (head_ms + spread_ms + 20 + back_ms) * MS
    nominal = estimate.nominal(size_bytes=SIZE, in_flight_bytes=0, now_us=sent_us)
    estimate.observe_frame(
        size_bytes=SIZE, sent_us=sent_us, arrived_us=arrived_us, nominal=nominal, timing=timing, frame=frame
    )
    return arrived_us


def quick(estimate: LinkEstimate, *, frames: int = 20) -> int:
    now_us = START_US
    for _ in range(frames):
        now_us = replied(estimate, sent_us=now_us, head_ms=10, spread_ms=0, back_ms=10)
    return now_us


def p_in(estimate: LinkEstimate, remaining_ms: int, now_us: int) -> float:
    return estimate.forecast(now_us).p_on_time(SIZE, remaining_ms * MS)


# -- the link -------------------------------------------------------------------------------------------------


def test_a_result_that_is_late_on_its_way_back_makes_no_link_look_narrow():
    estimate = LinkEstimate()
    now_us = replied(estimate, sent_us=START_US, head_ms=10, spread_ms=20, back_ms=10)
    for _ in range(10):
        now_us = replied(estimate, sent_us=now_us, head_ms=10, spread_ms=20, back_ms=150)
    assert estimate.bytes_per_us == pytest.approx(SIZE / (20 * MS))


def test_a_body_that_came_with_its_head_tells_the_bandwidth_by_what_exceeds_the_least_round_trip():
    estimate = LinkEstimate()
    estimate.observe_rtt(20 * MS, START_US)
    replied(estimate, sent_us=START_US, head_ms=35, spread_ms=0, back_ms=10)
    assert estimate.bytes_per_us == pytest.approx(SIZE / (25 * MS))


def test_the_least_round_trip_is_forgotten_after_ten_seconds():
    estimate = LinkEstimate()
    estimate.observe_rtt(20 * MS, START_US)
    estimate.observe_rtt(180 * MS, START_US + RTT_MIN_SPAN_US - 1)
    assert estimate.rtt_min_us(START_US + RTT_MIN_SPAN_US - 1) == 20 * MS
    assert estimate.rtt_min_us(START_US + RTT_MIN_SPAN_US + 1) == 180 * MS


@pytest.mark.parametrize(
    ("own_ms", "now_ms"),
    [
        (50, 20),
        (65, 10),  # an estimate: nothing ever came back sooner than that
    ],
)
def test_what_a_round_trip_spent_behind_own_bytes_is_not_the_links(own_ms: int, now_ms: int):
    estimate = LinkEstimate()
    estimate.observe_rtt(10 * MS, START_US)
    later_us = START_US + 1_000 * MS
    estimate.observe_rtt(70 * MS, later_us, own_us=own_ms * MS)
    assert estimate.rtt_now_us(later_us) == now_ms * MS
    assert estimate.rtt_min_us(later_us) == 10 * MS


def test_an_excused_round_trip_makes_no_minimum():
    estimate = LinkEstimate()
    estimate.observe_rtt(70 * MS, START_US, own_us=50 * MS)
    assert estimate.rtt_min_us(START_US) == 70 * MS


def test_the_round_trip_now_is_the_least_of_the_last_three_while_they_are_young():
    estimate = LinkEstimate()
    for rtt_ms in (5, 60, 40, 50):
        estimate.observe_rtt(rtt_ms * MS, START_US)
    assert estimate.rtt_now_us(START_US) == 40 * MS
    estimate.observe_rtt(90 * MS, START_US + RECENT_SPAN_US)
    assert estimate.rtt_now_us(START_US + RECENT_SPAN_US + 1) == 90 * MS


def test_the_reply_of_an_overdue_frame_takes_the_place_of_what_was_thought_of_it():
    estimate = LinkEstimate()
    now_us = quick(estimate, frames=10)
    nominal = estimate.nominal(size_bytes=SIZE, in_flight_bytes=0, now_us=now_us)
    estimate.observe_overdue(sent_us=now_us, nominal=nominal, now_us=now_us + 300 * MS, frame=("s", 7))
    thought = p_in(estimate, 150, now_us + 301 * MS)
    replied(estimate, sent_us=now_us, head_ms=10, spread_ms=0, back_ms=10, frame=("s", 7))
    assert thought < 0.95
    assert p_in(estimate, 150, now_us + 301 * MS) == 1.0


# -- the worker -----------------------------------------------------------------------------------------------


def test_a_queue_the_worker_speaks_of_counts_before_any_frame_has_waited_in_it():
    estimate = LinkEstimate()
    now_us = quick(estimate)
    assert p_in(estimate, 90, now_us) == 1.0
    estimate.observe_load(Load(queue_frames=6, queue_us=120 * MS, service_p50_us=20 * MS), now_us)
    assert p_in(estimate, 90, now_us) == 0.0


def test_what_the_worker_said_of_its_queue_a_second_ago_is_not_believed_any_more():
    estimate = LinkEstimate()
    now_us = quick(estimate)
    estimate.observe_load(Load(queue_frames=6, queue_us=120 * MS, service_p50_us=20 * MS), now_us)
    assert p_in(estimate, 90, now_us + LOAD_SPAN_US) == 0.0
    assert p_in(estimate, 90, now_us + LOAD_SPAN_US + 2) == 1.0


# -- the encoder ----------------------------------------------------------------------------------------------


def test_encoding_is_expected_to_take_as_long_as_all_but_one_in_twenty_did():
    cost = LadderCost((Rung(codec="jpeg", quality=50, scale=1.0, accuracy=1.0),), 320 * 240)
    for took_ms in [2] * 45 + [9] * 9:
        cost.observe(0, size_bytes=SIZE, encode_us=took_ms * MS)
    assert cost.encode_us(0) == 9 * MS
    for took_ms in [2] * 59 + [30]:
        cost.observe(0, size_bytes=SIZE, encode_us=took_ms * MS)
    assert cost.encode_us(0) == 2 * MS, "one stall is not how long it takes"


# -- this machine ---------------------------------------------------------------------------------------------


def wake_up() -> WakeUp:
    return WakeUp(deadline_us=100 * MS, margin_us=4 * MS)


def test_the_margin_grows_with_how_late_this_machine_wakes_up_and_never_falls_below_the_recipes():
    machine = wake_up()
    for _ in range(100):
        machine.woke_late(200)
    assert machine.margin_us == 4 * MS
    for _ in range(100):
        machine.woke_late(7 * MS)
    assert machine.margin_us == 7 * MS


def test_a_slot_leaves_time_for_the_slowest_commits_and_one_stalled_disk_takes_no_more_than_a_tenth():
    machine = wake_up()
    assert machine.commit_us == PRIOR_COMMIT_US
    for took_ms in [1] * 95 + [6] * 5:
        machine.commit_took(took_ms * MS)
    assert machine.commit_us == 6 * MS
    assert machine.hold_us == 4 * MS + 6 * MS
    for _ in range(20):
        machine.commit_took(900 * MS)
    assert machine.commit_us == 10 * MS
