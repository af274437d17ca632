"""A near model that breaks at 30 frames a second fills no disk with words about it."""

from functools import partial

import numpy as np
import pytest

from edge.near.runner import NearRun, NearRunner
from pipelines.detectors.base import CancelToken
from pipelines.detectors.synthetic import SyntheticDetector
from pipelines.errors import Fatal
from pipelines.frame import Picture
from pipelines.log_throttle import CALM_US
from pipelines.result import Detections, Status
from tests.support.eventually import eventually

FRAME_US = 33_333
PICTURE = np.zeros((8, 8, 3), np.uint8)


class Broken(SyntheticDetector):
    """Fails until somebody mends it."""

    mended = False

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        if not self.mended:
            raise Fatal("the engine is broken")
        return super().detect(picture, cancel)


class Clock:
    now_us = 1_000_000

    def __call__(self) -> int:
        return self.now_us


def test_a_broken_near_model_is_said_at_once_then_once_a_minute_and_its_recovery_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, done = Clock(), list[NearRun]()
    detector = Broken(delay_us=0)
    runner = NearRunner(detector, done=done.append, clock_us=clock)
    runner.start()

    def ended(wanted: int) -> bool:
        return len(done) >= wanted

    def run(count: int) -> None:
        for _ in range(count):
            wanted = len(done) + 1
            clock.now_us += FRAME_US
            runner.submit(("door", wanted), PICTURE)
            eventually(partial(ended, wanted), what="the run")

    try:
        run(60)
        assert {made.status for made in done} == {Status.FAILED}
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith("near failed on door/1: the engine is broken")
        clock.now_us += 60_000_000
        run(1)
        assert "and 59 times more" in caplog.messages[1]
        detector.mended = True
        clock.now_us += CALM_US
        run(3)
        assert caplog.messages[2:] == ["near works again, after 61 failures"]
    finally:
        runner.close()
