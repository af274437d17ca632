"""Records in zstd batches: packed once by the agent, opened within limits by the worker.

The unpacked length is stated beside the batch and checked before a byte is allocated; a stream that
inflates past its statement is refused (a 400 kB body may hide 400 MB), and so is one that asks for a window
larger than any batch within the limit needs. Records are counted before one is built.
"""

from collections.abc import Callable, Iterable, Sequence

import zstandard
from google.protobuf.message import DecodeError

from pipelines.errors import Rejected
from pipelines.result import Detections, Record
from protos import inference_pb2 as pb
from protos.wire.bulk import BulkBatch
from protos.wire.fields import fields
from protos.wire.values import detections_from, detections_to, record_from, record_to

_RECORDS = pb.Records.DESCRIPTOR.fields_by_name["records"].number
_LARGEST_RECORD_BYTES = 4 << 20
_SMALLEST_WINDOW_BYTES = 1 << 10
_LARGEST_WINDOW_BYTES = 1 << 27


def encode(record: Record) -> bytes:
    """One record as bytes, as the outbox keeps it."""
    return record_to(record).SerializeToString()


def decode(data: bytes, agent: str) -> Record:
    """The record in `data`; Rejected if it is damaged or larger than any record."""
    if len(data) > _LARGEST_RECORD_BYTES:
        raise Rejected(f"a record of {len(data)} bytes; {_LARGEST_RECORD_BYTES} are the most")
    try:
        return record_from(pb.Record.FromString(data), agent)
    except DecodeError as error:
        raise Rejected(f"damaged record: {error}") from error


def encode_detections(value: Detections) -> bytes:
    """Detections with their labels as bytes, as the record store keeps them."""
    return detections_to(value).SerializeToString()


def decode_detections(data: bytes) -> Detections:
    try:
        return detections_from(pb.Detections.FromString(data))
    except DecodeError as error:
        raise Rejected(f"damaged detections: {error}") from error


def pack(records: Iterable[Record], *, level: int = 3) -> tuple[bytes, int]:
    """`(records_zstd, records_bytes)` for a BulkBatch."""
    data = pb.Records(records=[record_to(r) for r in records]).SerializeToString()
    return zstandard.ZstdCompressor(level=level).compress(data), len(data)


def unpack(
    batch: BulkBatch,
    *,
    agent: str,
    decompressed_bytes: int,
    batch_records: int,
    refused: Callable[[Rejected], None] | None = None,
) -> Sequence[Record]:
    """The records of `batch`; Rejected when larger than the limits, damaged or not as large as stated.

    One entry that makes no record is told to `refused` and left out; without `refused` it fails the whole.
    """
    if not batch.records_zstd:
        return ()
    if batch.records_bytes > decompressed_bytes:
        raise Rejected(f"a batch of {batch.records_bytes} bytes exceeds the limit of {decompressed_bytes}")
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=_window_bytes(decompressed_bytes)).stream_reader(
            batch.records_zstd
        )
        data = reader.read(batch.records_bytes + 1)
        if len(data) != batch.records_bytes:
            raise Rejected(f"a batch said it holds {batch.records_bytes} bytes and does not")
    except zstandard.ZstdError as error:
        raise Rejected(f"damaged batch: {error}") from error
    out: list[Record] = []
    for entry in _entries(data, batch_records):
        try:
            out.append(decode(entry, agent))
        except Rejected as error:
            if refused is None:
                raise
            refused(error)
    return out


def _entries(data: bytes, most: int) -> list[bytes]:
    """The records of a serialised Records, each still serialised; Rejected beyond `most`."""
    found = [
        bytes(value)
        for number, value in fields(memoryview(data), most=most + 1)
        if number == _RECORDS and isinstance(value, memoryview)
    ]
    if len(found) > most:
        raise Rejected(f"a batch of more than {most} records, which is the limit")
    return found


def _window_bytes(decompressed_bytes: int) -> int:
    """The largest window a batch within the limit can need: the next power of two, as zstd counts."""
    needed_bytes = 1 << max(0, decompressed_bytes - 1).bit_length()
    return min(max(needed_bytes, _SMALLEST_WINDOW_BYTES), _LARGEST_WINDOW_BYTES)
