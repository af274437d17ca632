"""The frames nearest to breaking the promise: their order, and small pictures of the worst.

Worst are frames without a result, then late ones by how late, then those nearest to their deadline; of equals,
the earlier. The order needs nothing but the frame's own line, so a reader of the lines finds the same frames.
"""

import heapq
from pathlib import Path

import cv2
import numpy as np

from pipelines.errors import Rejected
from pipelines.frame import Picture
from pipelines.pictures import for_detector
from pipelines.result import Answer, AnsweredBy, Status

KEPT = 10
WIDEST_PX = 480
_QUALITY = 80

Badness = tuple[int, float, int, str]
"""Greater is worse: no result (2), late (1) or in time (0); ms past the deadline; −seq; stream."""


def badness(
    *, stream: str, seq: int, answered_by: str, status: str, latency_ms: float, deadline_ms: float
) -> Badness:
    """How bad a frame's answer is; see `Badness`."""
    past_ms = round(latency_ms - deadline_ms, 3)
    without = answered_by == AnsweredBy.MISSED or status != Status.OK
    return (2 if without else int(past_ms > 0), past_ms, -seq, stream)


def picture_name(*, stream: str, seq: int, width_px: int, height_px: int) -> str:
    """The file of a frame's picture; it carries the size of the source, in whose pixels boxes are."""
    return f"{stream}-{seq}.{width_px}x{height_px}.jpg"


def small_jpeg(picture: Picture) -> bytes:
    """`picture` at most WIDEST_PX wide, as a detector sees it, as JPEG. Raises Rejected for what is no picture."""
    height, width = picture.shape[:2]
    try:
        if width > WIDEST_PX:
            size = (WIDEST_PX, max(1, round(height * WIDEST_PX / width)))
            small = cv2.resize(np.ascontiguousarray(picture), size, interpolation=cv2.INTER_AREA)
            picture = small.astype(picture.dtype, copy=False)
        done, data = cv2.imencode(".jpg", for_detector(picture), [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    except cv2.error as error:
        raise Rejected(f"no JPEG can be made of {picture.dtype} {picture.shape}: {error}") from error
    if not done:
        raise Rejected(f"no JPEG can be made of {picture.dtype} {picture.shape}")
    return data.tobytes()


class WorstPictures:
    """Keeps pictures of the `kept` worst frames in `directory`, made when the first one comes.

    `may_enter` may be asked from any thread; `add` is for the one thread that writes.
    """

    def __init__(self, directory: Path, *, kept: int = KEPT) -> None:
        self._directory = directory
        self._kept = kept
        self._heap: list[tuple[Badness, str]] = []  # the least bad first
        self._bar: Badness | None = None

    def may_enter(self, answer: Answer) -> bool:
        """Whether the frame is among the worst so far; the bar only rises."""
        bar = self._bar
        return bar is None or _badness_of(answer) > bar

    def add(self, answer: Answer, picture: Picture) -> None:
        """Keep the picture if its frame is among the worst, and drop the one it displaces. OSError, Rejected."""
        entry = _badness_of(answer)
        if len(self._heap) >= self._kept and entry <= self._heap[0][0]:
            return
        height, width = picture.shape[:2]
        name = picture_name(stream=answer.id.stream, seq=answer.id.seq, width_px=width, height_px=height)
        data = small_jpeg(picture)
        self._directory.mkdir(exist_ok=True)
        (self._directory / name).write_bytes(data)
        if len(self._heap) < self._kept:
            heapq.heappush(self._heap, (entry, name))
        else:
            _, displaced = heapq.heapreplace(self._heap, (entry, name))
            (self._directory / displaced).unlink(missing_ok=True)
        if len(self._heap) == self._kept:
            self._bar = self._heap[0][0]


def _badness_of(answer: Answer) -> Badness:
    return badness(
        stream=answer.id.stream,
        seq=answer.id.seq,
        answered_by=answer.answered_by,
        status=answer.status,
        latency_ms=answer.latency_us / 1000,
        deadline_ms=answer.deadline_us / 1000,
    )
