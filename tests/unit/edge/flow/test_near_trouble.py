"""A near model that breaks at 30 frames a second fills no disk with words about it."""

import numpy as np
import pytest

from edge.near.runner import NearRun, NearRunner
from pipelines.detectors.synthetic import SyntheticDetector
from pipelines.log_throttle import CALM_US
from pipelines.result import Status
from tests.support.eventually import eventually

FRAME_US = 33_333
PICTURE = np.zeros((8, 8, 3), np.uint8)


class Clock:
    now_us = 1_000_000

    def __call__(self) -> int:
        return self.now_us


def test_a_broken_near_model_is_said_at_once_then_once_a_minute_and_its_recovery_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, done = Clock(), list[NearRun]()
    detector = SyntheticDetector(delay_us=0, fail_every=1)
    runner = NearRunner(detector, done=done.append, clock_us=clock)
    runner.start()

    def run(count: int) -> None:
        for _ in range(count):
            before = len(done)
            clock.now_us += FRAME_US
            runner.submit(("door", before + 1), PICTURE)
            eventually(lambda before=before: len(done) > before, what="the run")

    try:
        run(60)
        assert {made.status for made in done} == {Status.FAILED}
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith("near failed on door/1: run 1 failed")
        clock.now_us += 60_000_000
        run(1)
        assert "and 59 times more" in caplog.messages[1]
        detector._fail_every = None
        clock.now_us += CALM_US
        run(3)
        assert caplog.messages[2:] == ["near works again, after 61 failures"]
    finally:
        runner.close()
