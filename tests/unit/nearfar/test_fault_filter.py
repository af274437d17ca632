"""A loop that fails at each turn is said once a minute, and nothing else is kept back."""

import io
import logging

import pytest

from nearfar.fault_filter import MOST_FAULTS, FaultFilter
from pipelines.log_throttle import EVERY_US, LogThrottle


class Log:
    """A logger of its own behind the filter; `now_us` is its clock."""

    def __init__(self) -> None:
        self.now_us = 5_000_000
        self.text = io.StringIO()
        self.logger = logging.getLogger("tests.faults")
        self.logger.propagate = False
        self.logger.handlers.clear()
        handler = logging.StreamHandler(self.text)
        handler.addFilter(FaultFilter(clock_us=lambda: self.now_us))
        self.logger.addHandler(handler)

    def fail(self, name: str = "door", error: type[Exception] = RuntimeError, turn: int = 0) -> None:
        self.logger.error("stream %s: turn %d failed", name, turn, exc_info=error("broken"))

    @property
    def lines(self) -> list[str]:
        return [line for line in self.text.getvalue().splitlines() if line.startswith("stream")]


@pytest.fixture
def log() -> Log:
    return Log()


def test_the_first_is_said_at_once_with_its_traceback_and_the_rest_with_the_next_minute(log: Log) -> None:
    for turn in range(1_000):
        log.fail(turn=turn)
        log.now_us += 1_000
    assert log.lines == ["stream door: turn 0 failed"]
    assert log.text.getvalue().count("RuntimeError: broken") == 1
    log.now_us += EVERY_US
    log.fail(turn=1_000)
    assert log.lines[1:] == ["stream door: turn 1000 failed (and 999 times more in the last 61 s)"]


def test_faults_of_others_and_of_another_kind_are_said(log: Log) -> None:
    log.fail("door")
    log.fail("gate")
    log.fail("door", ValueError)
    assert len(log.lines) == 3


def test_lines_without_a_traceback_pass_however_often(log: Log) -> None:
    for _ in range(5):
        log.logger.warning("stream %s: slow", "door")
    assert len(log.lines) == 5


def test_what_the_throttle_lets_through_is_not_counted_twice(log: Log) -> None:
    throttle = LogThrottle(log.logger, clock_us=lambda: log.now_us)
    for kind in ("one", "two", "three"):
        throttle.failed("stream door", "cannot", kind=kind, error=RuntimeError("broken"))
    assert len(log.lines) == 3


def test_a_hundred_percent_in_the_words_breaks_nothing(log: Log) -> None:
    log.fail("100% %s")
    log.fail("100% %s")
    log.now_us += EVERY_US
    log.fail("100% %s")
    assert log.lines[1] == "stream 100% %s: turn 0 failed (and 1 times more in the last 60 s)"


def test_what_is_remembered_is_bounded(log: Log) -> None:
    for number in range(MOST_FAULTS + 1):
        log.fail(f"s{number}")
    log.fail("s0")  # forgotten, so said again
    log.fail(f"s{MOST_FAULTS}")
    assert len(log.lines) == MOST_FAULTS + 2
