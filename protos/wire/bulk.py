"""Messages of the bulk lane: records and gaps up, acks down."""

from dataclasses import dataclass

from pipelines.frame import Encoding, FrameId
from pipelines.result import Gap


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
    id: FrameId
    sha256: bytes
    size_bytes: int
    encoding: Encoding


@dataclass(frozen=True, slots=True, kw_only=True)
class Have:
    payloads: tuple[HavePayload, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    index: int
    offset_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    wants: tuple[Want, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    index: int
    offset_bytes: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkBatch:
    """`records_zstd` is packed by `records.pack` and opened by `records.unpack` within limits."""

    batch: int
    records_zstd: bytes = b""
    records_bytes: int = 0
    chunks: tuple[Chunk, ...] = ()
    gaps: tuple[Gap, ...] = ()
