"""The link's estimate: differences of single clocks in, a probability out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.flow.timing import far_timing, near_timing
from edge.scheduling.far.link_estimate import LinkEstimate
from pipelines.result import Load, WorkerTiming

MS = 1000


def reply(estimate, *, sent_us, rtt_ms, worker_ms, size=25_000, spread_ms=0.0, skew_us=10**12):
    """A frame sent at `sent_us`; the worker's clock is somewhere else entirely."""
    head_us = skew_us + sent_us
    timing = WorkerTiming(
        head_mono_us=head_us,
        body_mono_us=int(head_us + spread_ms * MS),
        detect_us=worker_ms * MS,
        resident_us=worker_ms * MS,
    )
    arrived_us = int(sent_us + (rtt_ms + worker_ms + spread_ms) * MS)
    nominal = estimate.nominal(size_bytes=size, in_flight_bytes=0, now_us=sent_us)
    estimate.observe_frame(
        size_bytes=size, sent_us=sent_us, arrived_us=arrived_us, nominal=nominal, timing=timing
    )
    return arrived_us


def p_of(estimate, remaining_ms, now_us):
    return estimate.forecast(now_us).p_on_time(25_000, int(remaining_ms * MS))


def test_bandwidth_is_read_from_how_far_head_and_body_arrive_apart():
    estimate = LinkEstimate()
    now = 1_000_000
    for _ in range(20):
        now = reply(estimate, sent_us=now, rtt_ms=20, worker_ms=20, spread_ms=20)
    assert estimate.bytes_per_us == pytest.approx(25_000 / 20_000)
    assert estimate.rtt_min_us(now) == 20 * MS


def test_a_quick_link_is_surely_on_time_and_a_slow_one_surely_not():
    estimate = LinkEstimate()
    now = 1_000_000
    for _ in range(20):
        now = reply(estimate, sent_us=now, rtt_ms=20, worker_ms=20)
    assert p_of(estimate, 90, now) == 1.0
    assert p_of(estimate, 30, now) == 0.0


def test_what_own_bytes_excuse_leaves_the_least_round_trip_that_was_measured():
    estimate = LinkEstimate()
    estimate.observe_rtt(30 * MS, 1_000_000)
    for at_us in (1_200_000, 1_400_000, 1_600_000):
        estimate.observe_rtt(90 * MS, at_us, own_us=90 * MS)
    assert estimate.rtt_now_us(1_600_000) == 30 * MS


def test_overdue_frames_count_as_slow_before_their_reply_has_come():
    estimate = LinkEstimate()
    now = 1_000_000
    for _ in range(20):
        now = reply(estimate, sent_us=now, rtt_ms=20, worker_ms=20)
    before = p_of(estimate, 90, now)
    for _ in range(10):
        nominal = estimate.nominal(size_bytes=25_000, in_flight_bytes=0, now_us=now)
        estimate.observe_overdue(sent_us=now - 96 * MS, nominal=nominal, now_us=now)
    assert p_of(estimate, 90, now) <= 0.7 * before


def test_slowness_is_forgotten_after_five_seconds():
    estimate = LinkEstimate()
    now = 1_000_000
    for _ in range(20):
        now = reply(estimate, sent_us=now, rtt_ms=20, worker_ms=150)
    assert p_of(estimate, 90, now) == 0.0
    assert p_of(estimate, 90, now + 5_100_000) > 0.0


@given(
    replies=st.lists(st.tuples(st.floats(0, 500), st.integers(0, 300), st.floats(0, 200)), max_size=30),
    remaining_ms=st.floats(-100, 1000),
    skew_us=st.integers(-(10**12), 10**12),
)
def test_p_is_a_probability_and_no_clock_offset_matters(replies, remaining_ms, skew_us):
    here, there = LinkEstimate(), LinkEstimate()
    now = 1_000_000
    for rtt_ms, worker_ms, spread_ms in replies:
        values = {"rtt_ms": rtt_ms, "worker_ms": worker_ms, "spread_ms": spread_ms}
        after = reply(here, sent_us=now, skew_us=0, **values)
        reply(there, sent_us=now, skew_us=skew_us, **values)
        now = after
    p = p_of(here, remaining_ms, now)
    assert 0.0 <= p <= 1.0
    assert p == p_of(there, remaining_ms, now)


times = st.integers(0, 10**6)


@given(waits=st.lists(times, min_size=7, max_size=7), size=st.integers(1, 10**6))
def test_the_parts_of_a_latency_add_up_to_it(waits, size):
    accepted, due, started, run, given_, released, encode = waits
    near = near_timing(
        captured_us=0,
        accepted_us=accepted,
        due_us=due,
        started_us=started,
        run_us=run,
        given_us=given_,
        released_us=released,
    )
    assert sum(near.values()) == released
    far = far_timing(
        captured_us=0,
        accepted_us=accepted,
        encode_us=encode,
        sent_us=due,
        arrived_us=started,
        released_us=released,
        size_bytes=size,
        rtt_min_us=run,
        bytes_per_us=12.5,
        worker=WorkerTiming(queue_us=given_, resident_us=run),
    )
    assert sum(far.values()) == released


def asked(estimate, now_us, *, before):
    if before:
        estimate.forecast(now_us)


@pytest.mark.parametrize("before", [True, False], ids=["asked before", "not asked before"])
def test_what_joins_too_few_frames_goes_with_the_round_trip_as_it_is_now(before):
    estimate, now = LinkEstimate(), 1_000_000
    nominal = estimate.nominal(size_bytes=1_000, in_flight_bytes=0, now_us=now)
    estimate.observe_overdue(sent_us=now - 1 * MS, nominal=nominal, now_us=now)
    asked(estimate, now, before=before)
    estimate.observe_rtt(1 * MS, now)
    assert estimate.forecast(now).completion_us(1_000) < 2 * MS


@pytest.mark.parametrize("before", [True, False], ids=["asked before", "not asked before"])
def test_a_worker_that_says_the_same_again_after_a_silence_is_believed(before):
    estimate, now = LinkEstimate(), 1_000_000
    for _ in range(10):
        now = reply(estimate, sent_us=now, rtt_ms=20, worker_ms=5)
    queue = Load(queue_us=300 * MS, service_p50_us=20 * MS)
    estimate.observe_load(queue, now)
    now += 2_000_000
    asked(estimate, now, before=before)
    estimate.observe_load(queue, now)
    assert p_of(estimate, 200, now) == 0.0


@pytest.mark.parametrize("before", [True, False], ids=["asked before", "not asked before"])
def test_how_long_a_worker_took_long_ago_says_nothing_of_a_frame_that_is_overdue(before):
    estimate, now = LinkEstimate(), 1_000_000
    for _ in range(10):
        now = reply(estimate, sent_us=now, rtt_ms=20, worker_ms=400)
    now += 6_000_000
    asked(estimate, now, before=before)
    nominal = estimate.nominal(size_bytes=25_000, in_flight_bytes=0, now_us=now - 300 * MS)
    estimate.observe_overdue(sent_us=now - 300 * MS, nominal=nominal, now_us=now)
    assert p_of(estimate, 200, now) == 0.75  # of what a link is like as a rule; the overdue one is the rest
