"""detections < result < answer < record: what a model saw, said, what was given, what the cloud keeps."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.frame import Encoding, FrameId


class AnsweredBy(StrEnum):
    """Who gave the answer to the sinks. `missed`: nobody in time; never shown as "no objects"."""

    NEAR = "near"
    FAR = "far"
    TRACKED = "tracked"
    MISSED = "missed"


class Status(StrEnum):
    """What became of the run behind an answer; anything but `ok` carries no detections."""

    OK = "ok"
    TIMEOUT = "timeout"
    FAILED = "failed"
    NO_MODEL = "no_model"


class ShedReason(StrEnum):
    """Why a frame ended without an answer."""

    SLOT_OVERWRITTEN = "slot_overwritten"  # a newer frame of its stream came before anybody took it
    STALE_SOURCE = "stale_source"  # it was old when the camera delivered it
    OVERLOAD = "overload"  # no time was left to answer it
    PRIORITY = "priority"  # frames that matter more had near
    STOPPING = "stopping"  # the agent ends


class GapReason(StrEnum):
    """Why the cloud has no record of a frame."""

    GATED = "gated"
    SHED = "shed"
    EVICTED = "evicted"
    INTERRUPTED = "interrupted"


class Priority(StrEnum):
    """How much a frame matters, rising."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


PRIORITIES = tuple(Priority)
"""Rising; the index of a priority is its number in the outbox and on the wire, so the order never changes."""


@lru_cache(maxsize=64)
def _factors(x: float, y: float) -> NDArray[np.float32]:
    """The same few for every frame, and making them takes as long as using them."""
    factors = np.array([x, y, x, y], np.float32)
    factors.flags.writeable = False
    return factors


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """N boxes as columns: `boxes` float32 [N,4] x1 y1 x2 y2 in source pixels, `scores` float32 [N] in
    0..1, `class_ids` uint16 [N], indexes into `labels`."""

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    class_ids: NDArray[np.uint16]
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.scores)
        if self.boxes.shape != (count, 4) or self.class_ids.shape != (count,):
            msg = f"columns disagree: boxes {self.boxes.shape}, scores {count}, class_ids {self.class_ids.shape}"
            raise ValueError(msg)

    def __len__(self) -> int:
        return len(self.scores)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Detections):
            return NotImplemented
        return (
            self.labels == other.labels
            and np.array_equal(self.boxes, other.boxes)
            and np.array_equal(self.scores, other.scores)
            and np.array_equal(self.class_ids, other.class_ids)
        )

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def empty(cls, labels: tuple[str, ...] = ()) -> "Detections":
        return cls(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.uint16), labels)

    def scaled(self, x: float, y: float) -> "Detections":
        """The same boxes with x multiplied by `x` and y by `y` (from encoded to source pixels)."""
        if x == 1.0 and y == 1.0:
            return self
        return Detections(self.boxes * _factors(x, y), self.scores, self.class_ids, self.labels)

    def as_rows(self) -> list[dict[str, object]]:
        """Plain values for JSON: label, class_id, score, box [x1, y1, x2, y2]."""
        names = self.labels
        return [
            {
                "label": names[c] if c < len(names) else str(c),
                "class_id": c,
                "score": round(s, 4),
                "box": [round(v, 1) for v in b],
            }
            for b, s, c in zip(
                self.boxes.tolist(), self.scores.tolist(), self.class_ids.tolist(), strict=True
            )
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTiming:
    """Where a far frame's time went on the worker, in µs of the worker's own monotonic clock.

    Only differences mean anything: `body_mono_us − head_mono_us` is the arrival spread of the frame;
    `resident_us` runs from the body's arrival to the hand-off of the reply.
    """

    head_mono_us: int = 0
    body_mono_us: int = 0
    queue_us: int = 0
    decode_us: int = 0
    batch_wait_us: int = 0
    detect_us: int = 0
    resident_us: int = 0
    batch_frames: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How busy a worker is: frames waiting, the delay a new frame would meet, and its service quantiles.

    `window_frames`: what the agent it is told to may have in flight from now on; 0 = nothing is said about it.
    """

    queue_frames: int = 0
    queue_us: int = 0
    service_p50_us: int = 0
    service_p95_us: int = 0
    window_frames: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was given to the sinks for one frame, by whom and how old it was.

    `latency_us` = released − captured on the gateway's monotonic clock. `on_time` is only true for near
    or far, status ok, released by the deadline. `timing_us` names each part of the latency; for a tracked answer also
    its `age`, which is none. `p_on_time`: the probability of being on time that far was given when the frame left,
    None = it did not leave. `age_frames`: how many captured frames ago it was said what is carried forward; 0 = of
    this frame.
    """

    id: FrameId
    answered_by: AnsweredBy
    status: Status
    captured_unix_us: int
    latency_us: int
    deadline_us: int
    on_time: bool
    paced: bool = True
    detections: Detections | None = None
    model: str = ""
    model_sha256: str = ""
    priority: Priority = Priority.NORMAL
    reason: str = ""
    link: str = ""
    encoding: Encoding | None = None
    p_on_time: float | None = None
    timing_us: dict[str, int] = field(default_factory=dict)
    age_frames: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One row for the cloud. `detections` None = outcome only (the worker already has the boxes).

    `age_us` is accumulated uptime since the frame was captured, when the record was sent; wall time is
    for people only.
    """

    id: FrameId
    answered_by: AnsweredBy
    status: Status
    late_far: bool = False
    captured_unix_us: int = 0
    age_us: int = 0
    latency_us: int = 0
    on_time: bool = False
    priority: Priority = Priority.NORMAL
    detections: Detections | None = None
    model: str = ""
    model_sha256: str = ""
    timing_us: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Gap:
    """Frames `first..last` (inclusive) of a stream that have no record, and why.

    `interrupted` may span frames that were recorded after all, and numbers beyond the last frame that none ever had: it
    explains the frames without a record among them, and is no count of them.
    """

    run: bytes
    stream: str
    first: int
    last: int
    reason: GapReason
    detail: str = ""

    def as_dict(self, agent: str) -> dict[str, Any]:
        """Plain values for JSON, CSV and tables; `agent` is whose frames they are."""
        return {
            "agent": agent,
            "run": self.run.hex(),
            "stream": self.stream,
            "first": self.first,
            "last": self.last,
            "reason": self.reason.value,
            "detail": self.detail,
        }
