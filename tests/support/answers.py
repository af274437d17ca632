"""An answer as a sink is given it."""

from dataclasses import replace
from typing import Any

import numpy as np

from pipelines.frame import FrameId
from pipelines.result import Answer, AnsweredBy, Detections, Status


def answer(seq: int = 1, **changes: Any) -> Answer:
    """A near answer with one car in it."""
    given = Answer(
        id=FrameId("gw", bytes(16), "door", seq),
        answered_by=AnsweredBy.NEAR,
        status=Status.OK,
        captured_unix_us=1_700_000_000_123_456,
        latency_us=41_500,
        deadline_us=100_000,
        on_time=True,
        detections=Detections(
            np.array([[1, 2, 3, 4]], np.float32),
            np.array([0.5], np.float32),
            np.zeros(1, np.uint16),
            ("car",),
        ),
        model="synthetic@320x240",
    )
    return replace(given, **changes)
