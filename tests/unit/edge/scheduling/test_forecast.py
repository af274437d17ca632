"""What is still out says as much about a link as what came back."""

import math

from edge.scheduling.far.forecast import REFUTED_AFTER_US, Forecast, Nominal, Past, Unanswered

MS = 1000
NOW_US = 5_000_000
QUICK = (20.0 * MS, 1.0, 1.0)
SLOW = (320.0 * MS, 1.0, 1.0)
"""A state: more than the round trip, times the crossing, weight."""


def forecast(*states, unanswered=(), waiting_bytes=0, bytes_per_us=1.0):
    return Forecast(
        Past(*zip(*states, strict=True)),
        rtt_us=20 * MS,
        bytes_per_us=bytes_per_us,
        unanswered=unanswered,
        waiting_bytes=waiting_bytes,
        now_us=NOW_US,
    )


def out_since(ms, *, size_bytes=10_000, ahead_ms=0):
    nominal = Nominal(20 * MS, ahead_ms * MS, size_bytes)
    return Unanswered(NOW_US - ms * MS, size_bytes, nominal)


def test_a_frame_takes_the_round_trip_its_bytes_and_the_worker():
    # 20 ms round trip + 10 kB at 1 byte/µs + 20 ms at the worker
    assert forecast(QUICK).completion_us(10_000) == 50 * MS
    assert forecast(QUICK).p_on_time(10_000, 50 * MS) == 1.0
    assert forecast(QUICK).p_on_time(10_001, 50 * MS) == 0.0


def test_the_newer_past_weighs_more():
    old, new = (*SLOW[:2], 0.25), QUICK
    assert forecast(old, new).p_on_time(1_000, 90 * MS) == 0.8


def test_a_frame_waits_for_what_is_out_and_for_what_waited_ahead_of_that():
    alone = forecast(QUICK).completion_us(1_000)
    behind = forecast(QUICK, unanswered=[out_since(4)]).completion_us(1_000)
    behind_two = forecast(QUICK, unanswered=[out_since(4, ahead_ms=5)]).completion_us(1_000)
    assert behind - alone == 6 * MS
    assert behind_two - alone == 11 * MS
    assert forecast(QUICK, waiting_bytes=2_000).completion_us(1_000) - alone == 2 * MS


def test_p_falls_while_an_answer_is_late_and_a_stalled_link_has_none():
    late_ms = 50 + REFUTED_AFTER_US // MS
    both = {"remaining_us": 90 * MS, "size_bytes": 1_000}
    assert forecast(QUICK, SLOW, unanswered=[out_since(30)]).p_on_time(**both) == 0.5
    assert forecast(QUICK, SLOW, unanswered=[out_since(late_ms)]).p_on_time(**both) == 0.0
    stalled = forecast(QUICK, unanswered=[out_since(late_ms)])
    assert stalled.p_on_time(**both) == 0.0
    assert math.isinf(stalled.completion_us(1_000))
