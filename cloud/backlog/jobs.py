"""One admitted frame on its way through the worker, and how it ended."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from cloud.scheduling.credits import Loan
from cloud.scheduling.queue import Ticket
from pipelines.frame import FrameId, Picture
from pipelines.result import Detections
from protos.wire.live import Buffer, FrameHead
from protos.wire.messages import ToAgent
from protos.wire.session import RejectReason


class Stage(Enum):
    """Where a job is. It only moves forward; `GONE` means that nobody may answer it any more."""

    AWAITING_BODY = auto()
    QUEUED = auto()
    DECODING = auto()
    DECODED = auto()
    RUNNING = auto()
    GONE = auto()


class Origin(Protocol):
    """The connection a frame came from."""

    def send(self, message: ToAgent) -> bool:
        """False if it is gone or takes no more."""
        ...

    def forget(self, job: "Job", *, body_may_come: bool = False) -> None:
        """The job ended; a body that still comes for it is discarded in silence."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """Times in µs of the worker's monotonic clock. `expiry_us` = head's arrival + its budget.

    `source_size`: (width_px, height_px) of the frame as captured, which its boxes come back in. `run_us`: its share
    of the run it was in. `keep_body`: also once it is decoded, else it is let go. `to_store`: its result is kept as a
    record. `awaits_commit`: its client is not answered before that is committed.
    """

    origin: Origin
    id: FrameId
    head: FrameHead
    source_size: tuple[int, int]
    model: str
    head_us: int
    expiry_us: int
    stage: Stage = Stage.AWAITING_BODY
    body: Buffer = b""
    keep_body: bool = False
    to_store: bool = True
    awaits_commit: bool = False
    body_us: int = 0
    picture: Picture | None = field(default=None, repr=False)
    decode_us: int = 0
    decoded_us: int = 0
    started_us: int = 0
    run_us: int = 0
    loan: Loan | None = None
    ticket: "Ticket[Job] | None" = None

    @property
    def size_bytes(self) -> int:
        return self.head.encoding.body_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """The model's boxes in pixels of the encoded picture, capped, best first."""

    detections: Detections
    model_sha256: str
    detect_us: int


@dataclass(frozen=True, slots=True)
class Failed:
    """No result will come; said to the agent with this reason and these words."""

    reason: RejectReason
    text: str


Outcome = Detected | Failed

EXPIRED = Failed(RejectReason.EXPIRED, "its time was over before it could be run")
STOPPED = Failed(RejectReason.DRAINING, "this worker stopped")
DISPLACED = Failed(
    RejectReason.QUEUE_FULL, "the queue is full, and an agent with fewer frames in it needed the place"
)
