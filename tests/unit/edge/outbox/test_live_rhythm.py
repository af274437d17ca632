"""Chunks keep out of the way of the next live frame where it can be foreseen."""

import random

from edge.outbox.sending.live_rhythm import GRACE_US, PAUSE_US, LiveRhythm

EVERY_US = 50_000
CROSSING_US = 10_000


def regular(rhythm: LiveRhythm, frames: int = 20) -> int:
    """When the last of `frames` left."""
    for number in range(frames):
        rhythm.sent(number * EVERY_US)
    return (frames - 1) * EVERY_US


def test_a_chunk_goes_at_once_after_a_frame_and_waits_for_one_it_would_hold_up() -> None:
    rhythm = LiveRhythm()
    last_us = regular(rhythm)
    for after_us in (1, EVERY_US - CROSSING_US - 1):
        assert rhythm.clear_us(CROSSING_US, last_us + after_us) == last_us + after_us
    for after_us in (EVERY_US - CROSSING_US + 1, EVERY_US, EVERY_US + GRACE_US - 1):
        assert rhythm.clear_us(CROSSING_US, last_us + after_us) == last_us + EVERY_US + GRACE_US


def test_a_frame_that_does_not_come_is_not_waited_for() -> None:
    rhythm = LiveRhythm()
    late_us = regular(rhythm) + EVERY_US + GRACE_US
    assert rhythm.clear_us(CROSSING_US, late_us) == late_us


def test_nothing_is_foreseen_without_a_rhythm() -> None:
    rhythm, dice, now_us = LiveRhythm(), random.Random(1), 0
    assert rhythm.clear_us(CROSSING_US, 0) == 0
    for _ in range(100):
        now_us += dice.choice((5_000, 95_000))
        rhythm.sent(now_us)
    for after_us in range(0, 100_000, 5_000):
        assert rhythm.clear_us(CROSSING_US, now_us + after_us) == now_us + after_us


def test_a_chunk_too_large_for_the_gaps_is_not_held_back_for_ever() -> None:
    rhythm = LiveRhythm()
    last_us = regular(rhythm)
    assert rhythm.clear_us(EVERY_US, last_us + 1) == last_us + 1


def test_the_rhythm_begins_anew_after_a_pause() -> None:
    rhythm = LiveRhythm()
    now_us = regular(rhythm) + PAUSE_US + 1
    rhythm.sent(now_us)
    before_us = now_us + EVERY_US - 1
    assert rhythm.clear_us(CROSSING_US, before_us) == before_us
