"""Messages of the bulk lane: records, gaps and payloads up, acks and needs down."""

from dataclasses import dataclass

from pipelines.frame import Encoding, FrameId
from pipelines.result import Gap, Priority


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RecordRange:
    """Records `first..last` (inclusive) of a run and stream."""

    run: bytes
    stream: str
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Committed by the worker's store, so the agent may forget. `batches`: BulkBatch numbers done whole."""

    records: tuple[RecordRange, ...] = ()
    payloads: tuple[FrameId, ...] = ()
    batches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HavePayload:
    """A payload the agent could send. `sha256`: 32 bytes. `source_size`: (width_px, height_px) of the frame as captured,
    (0, 0) = as encoded. `hard`: a rule found it worth a person's look."""

    id: FrameId
    sha256: bytes
    size_bytes: int
    encoding: Encoding
    source_size: tuple[int, int] = (0, 0)
    priority: Priority = Priority.NORMAL
    hard: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Have:
    """`have` numbers those of a connection, rising; the newest is the one that counts."""

    payloads: tuple[HavePayload, ...]
    have: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """`index` into the Have; the bytes before `offset_bytes` are kept already."""

    index: int
    offset_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """This worker will never take the payload, and why."""

    index: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What is neither wanted nor refused is acknowledged, or may be offered again later."""

    wants: tuple[Want, ...]
    have: int = 0
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of the payload number `index` of the Have numbered `have`, from `offset_bytes` on."""

    index: int
    offset_bytes: int
    data: bytes
    have: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkBatch:
    """`records_zstd` is packed by `records.pack` and opened by `records.unpack` within limits."""

    batch: int
    records_zstd: bytes = b""
    records_bytes: int = 0
    chunks: tuple[Chunk, ...] = ()
    gaps: tuple[Gap, ...] = ()
