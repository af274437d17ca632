"""What a connection is opened, kept alive and closed with. First on every connection: Hello."""

from dataclasses import dataclass
from enum import StrEnum

from pipelines.result import Load

PROTOCOL_VERSION = 1


class Lane(StrEnum):
    """Live frames and bulk backfill never share a queue or a TCP connection."""

    LIVE = "live"
    BULK = "bulk"


class RejectReason(StrEnum):
    TOO_LATE = "too_late"
    EXPIRED = "expired"
    QUEUE_FULL = "queue_full"
    OVER_CREDIT = "over_credit"
    TOO_LARGE = "too_large"
    BAD_PAYLOAD = "bad_payload"
    NO_MODEL = "no_model"
    DRAINING = "draining"
    HELLO_REQUIRED = "hello_required"
    NOT_ALLOWED = "not_allowed"
    UNKNOWN_KIND = "unknown_kind"
    VERSION = "version"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """A stream of an agent and its picture's size when the Hello was said, 0 × 0 if not known then.

    For people: boxes come back in the pixels that each frame's head states.
    """

    name: str
    width_px: int
    height_px: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Empty `model` and `model_sha256`, and an input of 0 × 0, take what the worker has."""

    agent: str
    run: bytes
    lane: Lane
    streams: tuple[StreamInfo, ...] = ()
    model: str = ""
    model_sha256: str = ""
    software: str = ""
    input_width_px: int = 0
    input_height_px: int = 0
    protocol_min: int = PROTOCOL_VERSION
    protocol_max: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """A model of a worker. `sha256`: of its file, 64 hex digits; `labels`: index = class id."""

    name: str
    sha256: str
    labels: tuple[str, ...]
    input_width_px: int
    input_height_px: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`payload_bytes`: the largest payload taken on the bulk lane, 0 = this worker keeps none."""

    message_bytes: int
    picture_px: int
    decompressed_bytes: int
    batch_records: int
    payload_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Absolute windows of an agent: frames and bytes it may have in flight."""

    frames: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """`models[0]` is the one this connection runs (`Hello.model`, or the worker's default); then the others.
    `takes_frames`: also as one message, head and body."""

    worker_run: bytes
    store_id: str
    models: tuple[ModelInfo, ...]
    limits: Limits
    credit: Credit
    takes_frames: bool = False
    protocol: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """`sent_mono_us`: of the sender's monotonic clock."""

    nonce: int
    sent_mono_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """Answers the Ping of the same `nonce`. `arrived_mono_us`: of the answerer's monotonic clock; `resident_us`: from
    there to the hand-off, so that it can be left out of a round trip."""

    nonce: int
    arrived_mono_us: int
    resident_us: int
    load: Load = Load()
    credit: Credit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodbye:
    """Whoever sends it ends this connection; `reason`: for people."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """A refusal in words. `retry`: whether the same Hello may be accepted later. `batch`, `have`: the BulkBatch or Have
    it is about, 0 = none."""

    reason: RejectReason
    text: str
    retry: bool = True
    batch: int = 0
    have: int = 0
