"""A batch of records is opened within limits, whatever its bytes claim."""

import secrets
import tracemalloc
from typing import TypedDict

import pytest
import zstandard

from pipelines.errors import Rejected
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Record, Status
from protos import inference_pb2 as pb
from protos.wire import bulk, records

AGENT = "gw"


class Limits(TypedDict):
    decompressed_bytes: int
    batch_records: int


LIMITS = Limits(decompressed_bytes=1 << 20, batch_records=500)


@pytest.mark.parametrize("honest_frame", [True, False], ids=["size in the frame", "no size in the frame"])
@pytest.mark.parametrize("stated", [0, 1_000, LIMITS["decompressed_bytes"]])
def test_a_batch_that_inflates_past_its_statement_is_rejected_before_it_is_allocated(
    stated: int, honest_frame: bool
) -> None:
    small = zstandard.ZstdCompressionParameters(window_log=17, write_content_size=honest_frame)
    bomb = zstandard.ZstdCompressor(compression_params=small).compress(bytes(64 << 20))
    assert len(bomb) < 1 << 16
    batch = bulk.BulkBatch(batch=1, records_zstd=bomb, records_bytes=stated)
    tracemalloc.start()
    try:
        with pytest.raises(Rejected, match=f"said it holds {stated} bytes"):
            records.unpack(batch, agent=AGENT, **LIMITS)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 8 << 20


def test_a_batch_whose_window_is_larger_than_any_batch_within_the_limit_needs_is_rejected() -> None:
    wide = zstandard.ZstdCompressionParameters(window_log=21, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    data = pb.Records(records=[pb.Record(model="m" * 1000)]).SerializeToString()
    packed = compressor.compress(data) + compressor.flush()
    batch = bulk.BulkBatch(batch=1, records_zstd=packed, records_bytes=len(data))
    with pytest.raises(Rejected, match="damaged batch"):
        records.unpack(batch, agent=AGENT, **LIMITS)
    with pytest.raises(Rejected, match="a run is 16 bytes"):  # with a larger limit it is opened
        records.unpack(batch, agent=AGENT, decompressed_bytes=(1 << 20) + 1, batch_records=4096)


@pytest.mark.parametrize("size_bytes", [0, 1, 1023, 1024, 1025, 100_000, 1 << 20])
def test_a_batch_as_large_as_the_limit_is_within_the_window(size_bytes: int) -> None:
    record = Record(
        id=FrameId(AGENT, bytes(16), "door", 1),
        answered_by=AnsweredBy.NEAR,
        status=Status.OK,
        model=secrets.token_hex(size_bytes // 2),
    )
    packed, size = records.pack([record])
    batch = bulk.BulkBatch(batch=1, records_zstd=packed, records_bytes=size)
    assert list(records.unpack(batch, agent=AGENT, decompressed_bytes=size, batch_records=1)) == [record]


def test_an_entry_that_is_no_record_is_told_and_the_others_are_opened() -> None:
    good = records.encode(
        Record(id=FrameId(AGENT, bytes(16), "door", 1), answered_by=AnsweredBy.NEAR, status=Status.OK)
    )
    data = pb.Records(records=[pb.Record(), pb.Record.FromString(good)]).SerializeToString()
    packed = zstandard.ZstdCompressor().compress(data)
    batch = bulk.BulkBatch(batch=1, records_zstd=packed, records_bytes=len(data))
    refused: list[Rejected] = []
    (record,) = records.unpack(batch, agent=AGENT, **LIMITS, refused=refused.append)
    assert record.id.seq == 1
    assert [str(error) for error in refused] == ["a run is 16 bytes, not 0"]


def test_a_batch_that_states_more_than_the_limit_is_rejected_unopened() -> None:
    batch = bulk.BulkBatch(batch=1, records_zstd=b"not even zstd", records_bytes=(1 << 20) + 1)
    with pytest.raises(Rejected, match="exceeds the limit of 1048576"):
        records.unpack(batch, agent=AGENT, **LIMITS)


def test_a_batch_of_more_records_than_allowed_is_rejected() -> None:
    one = Record(id=FrameId(AGENT, bytes(16), "door", 1), answered_by=AnsweredBy.NEAR, status=Status.OK)
    packed, size = records.pack([one] * 3)
    batch = bulk.BulkBatch(batch=1, records_zstd=packed, records_bytes=size)
    with pytest.raises(Rejected, match="more than 2 records"):
        records.unpack(batch, agent=AGENT, decompressed_bytes=1 << 20, batch_records=2)
