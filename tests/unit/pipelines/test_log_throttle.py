"""A trouble that comes with every frame is said at once, then seldom, and so is its end."""

import logging

import pytest

from pipelines.log_throttle import CALM_US, EVERY_US, MOST_SUBJECTS, LogThrottle

FRAME_US = 33_333
log = logging.getLogger("tests.throttled")


class Clock:
    def __init__(self) -> None:
        self.now_us = 5 * EVERY_US

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> LogThrottle:
    return LogThrottle(log, clock_us=clock)


def failing(throttle: LogThrottle, clock: Clock, seconds: float, subject: str = "model a") -> int:
    end_us, frames = clock.now_us + int(seconds * 1e6), 0
    while clock.now_us < end_us:
        frames += 1
        throttle.failed(subject, f"failed on door/{frames}: boom", kind="boom")
        clock.now_us += FRAME_US
    return frames


def test_the_first_is_said_at_once_in_full(throttle: LogThrottle, caplog: pytest.LogCaptureFixture) -> None:
    throttle.failed("model a", "failed on door/1: boom")
    assert caplog.messages == ["model a failed on door/1: boom"]


def test_a_model_that_fails_at_30_fps_for_an_hour_writes_a_line_a_minute_with_the_count_kept_back(
    throttle: LogThrottle, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    frames = failing(throttle, clock, 3600)
    assert frames > 100_000
    assert 59 <= len(caplog.messages) <= 60
    assert "times more in the last 60 s" in caplog.messages[1]
    throttle.end()
    assert f"model a failed to the end: {frames} failures" in caplog.messages[-1]


def test_each_subject_and_each_kind_of_trouble_is_said_at_once(
    throttle: LogThrottle, caplog: pytest.LogCaptureFixture
) -> None:
    for subject, kind in (("a", "x"), ("a", "y"), ("b", "x"), ("a", "x"), ("b", "x")):
        throttle.failed(subject, f"failed: {kind}", kind=kind)
    assert caplog.messages == ["a failed: x", "a failed: y", "b failed: x"]


def test_that_it_works_again_is_said_once_with_the_count(
    throttle: LogThrottle, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    frames = failing(throttle, clock, 5)
    clock.now_us += CALM_US
    throttle.worked("model a")
    throttle.worked("model a")
    assert caplog.messages[1:] == [f"model a works again, after {frames} failures"]
    throttle.failed("model a", "failed on door/9: boom", kind="boom")
    assert caplog.messages[-1] == "model a failed on door/9: boom"


def test_one_that_fails_at_every_other_frame_is_not_said_to_work(
    throttle: LogThrottle, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(30 * 50):
        throttle.failed("near", f"failed on door/{n}", kind="x") if n % 2 else throttle.worked("near")
        clock.now_us += FRAME_US
    assert caplog.messages == ["near failed on door/1"]


def test_what_nobody_foresaw_is_shown_with_its_traceback(
    throttle: LogThrottle, caplog: pytest.LogCaptureFixture
) -> None:
    throttle.failed("near", "failed on door/1", error=ValueError("boom"))
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None) == (logging.ERROR, True)


def test_what_is_remembered_is_bounded(throttle: LogThrottle) -> None:
    for n in range(2 * MOST_SUBJECTS):
        throttle.failed(f"stream {n}", "failed")
    assert throttle.subjects == MOST_SUBJECTS
