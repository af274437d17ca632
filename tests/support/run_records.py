"""What run directories are given in tests: answers, frames and looks at a link."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edge.far.sight import LinkSight
from pipelines.frame import Encoding, Frame, FrameId, Picture
from pipelines.result import Answer, AnsweredBy, Detections, Status

RUN = bytes(range(16))


def frame_id(seq: int) -> FrameId:
    return FrameId("gw", RUN, "door", seq)


def answer(seq: int = 1, by: AnsweredBy = AnsweredBy.NEAR, **changes: Any) -> Answer:
    given = Answer(
        id=frame_id(seq),
        answered_by=by,
        status=Status.OK,
        captured_unix_us=1_700_000_000_123_456,
        latency_us=41_500,
        deadline_us=100_000,
        on_time=True,
        detections=Detections.empty(("face",)),
        model="centerface@192x160",
        link="lte",
        encoding=Encoding(codec="jpeg", quality=50, width_px=320, height_px=224, body_bytes=9000),
        timing_us={"encode": 2_250, "detect": 18_000},
    )
    return replace(given, **changes)


def frame(seq: int) -> Frame:
    return Frame(
        stream="door",
        seq=seq,
        picture=np.zeros((2, 2, 3), np.uint8),
        captured_us=0,
        available_us=0,
        captured_unix_us=1_700_000_000_000_000,
    )


def picture(
    width: int = 64, height: int = 32, dtype: Any = np.uint8, channels: tuple[int, ...] = (3,)
) -> Picture:
    rng = np.random.default_rng(width)
    made: Picture = rng.integers(0, np.iinfo(dtype).max, (height, width, *channels), dtype)
    return made


def sight(**changes: Any) -> LinkSight:
    """A link that is there and silent."""
    seen = LinkSight(
        unix_us=1_700_000_000_123_456,
        link="lte",
        connected=True,
        in_budget=False,
        reason="link silent",
        rtt_us=None,
        rtt_age_us=0,
        rtt_min_us=21_500,
        bytes_per_us=1.25,
        in_flight_bytes=5000,
        near_guard_us=14_000,
        fall_back_above_us=100_000,
        return_below_us=50_000,
        connections=1,
        sent_bytes=9_000,
        too_large=0,
        bad_messages=0,
    )
    return replace(seen, **changes)


class Clock:
    """Stands until a test moves it."""

    def __init__(self) -> None:
        self.now_us = 1_000_000

    def __call__(self) -> int:
        return self.now_us


def kept(path: Path) -> list[int]:
    """Frames whose picture lies in the run directory `path`."""
    return sorted(int(p.name.split(".")[0].removeprefix("door-")) for p in (path / "worst").iterdir())
