"""Messages of the live lane. Streams are indexes into the connection's Hello."""

from dataclasses import dataclass

from pipelines.frame import Encoding
from pipelines.result import Detections, Load, Priority, WorkerTiming
from protos.wire.session import RejectReason

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameHead:
    """Sent just before its FrameBody; `worker_budget_us` counts from the head's arrival. Boxes come back in the pixels
    of `source_width_px` × `source_height_px`, the frame as captured; both 0: in those of the encoding.

    `fault`: what is wrong with it, in words. Never sent: found when it is read, so that the frame can be rejected.
    """

    stream: int
    seq: int
    worker_budget_us: int
    sent_mono_us: int
    encoding: Encoding
    priority: Priority = Priority.NORMAL
    probe: bool = False
    traceparent: str = ""
    source_width_px: int = 0
    source_height_px: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameBody:
    """The payload of the head before it, as encoded."""

    stream: int
    seq: int
    data: Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Do not start this frame; a started run finishes and its result is sent."""

    stream: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """What the worker's model saw in one frame, and of which file it is: SHA-256 in 64 hex digits."""

    stream: int
    seq: int
    detections: Detections
    model: str
    model_sha256: str
    timing: WorkerTiming
    load: Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """The worker answers this frame with nothing else. `queue_us`: the delay it would have met; `text`: for people."""

    stream: int
    seq: int
    reason: RejectReason
    queue_us: int = 0
    load: Load = Load()
    text: str = ""
