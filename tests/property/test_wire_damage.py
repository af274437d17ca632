"""Whatever bytes arrive, they are a message or Rejected, and what they claim costs no memory."""

import tracemalloc
from functools import partial
from typing import cast

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import Rejected
from pipelines.result import Detections, Record
from protos import inference_pb2 as pb
from protos.wire import bulk, envelope, fields, live, multipart, records
from tests.support.wire_messages import AGENT, outcome, to_agent, to_worker


def judge(parts: list[bytes]) -> None:
    for unpack in (multipart.unpack_to_worker, multipart.unpack_to_agent):
        came = outcome(partial(unpack, parts, agent=AGENT))
        assert type(came) in (Rejected, *to_worker, *to_agent)


@given(st.lists(st.binary(max_size=60), max_size=4))
@settings(max_examples=200, deadline=None)
def test_arbitrary_parts_are_a_message_or_rejected_and_nothing_else(parts: list[bytes]) -> None:
    judge(parts)


@given(kind=st.integers(0, 12), header=st.binary(max_size=120), payload=st.none() | st.binary(max_size=20))
@settings(max_examples=400, deadline=None)
def test_a_known_kind_with_any_header_is_a_message_or_rejected(
    kind: int, header: bytes, payload: bytes | None
) -> None:
    judge([bytes([kind]), header, *([] if payload is None else [payload])])


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_a_message_damaged_on_its_way_is_a_message_or_rejected(data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        parts = multipart.pack_to_worker(data.draw(st.one_of(*to_worker.values())))
    else:
        parts = multipart.pack_to_agent(data.draw(st.one_of(*to_agent.values())))
    damaged = [bytearray(p) for p in parts]
    for _ in range(data.draw(st.integers(1, 4))):
        part = damaged[data.draw(st.integers(0, len(damaged) - 1))]
        if part:
            place = data.draw(st.integers(0, len(part) - 1))
            if data.draw(st.booleans()):
                part[place] = data.draw(st.integers(0, 255))
            else:
                del part[place:]
    judge([bytes(p) for p in damaged])


def judge_whole(whole: bytes) -> None:
    came = outcome(partial(envelope.unpack_to_agent, whole, agent=AGENT))
    assert type(came) in (Rejected, *to_agent)
    came = outcome(partial(envelope.unpack_to_worker, whole, agent=AGENT))
    for message in came if isinstance(came, tuple) else (came,):
        assert type(message) in (Rejected, *to_worker)


@given(st.binary(max_size=120))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_are_an_envelope_or_rejected_and_nothing_else(whole: bytes) -> None:
    judge_whole(whole)


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_an_envelope_damaged_on_its_way_is_a_message_or_rejected(data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        frame = envelope.pack_frame(
            data.draw(to_worker[live.FrameHead]), data.draw(to_worker[live.FrameBody])
        )
        whole = bytearray(
            data.draw(
                st.one_of(st.just(frame), *to_worker.values()).map(
                    lambda m: m if isinstance(m, bytes) else envelope.pack_to_worker(m)
                )
            )
        )
    else:
        whole = bytearray(envelope.pack_to_agent(data.draw(st.one_of(*to_agent.values()))))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, max(0, len(whole) - 1)))
        if place < len(whole) and data.draw(st.booleans()):
            whole[place] = data.draw(st.integers(0, 255))
        else:
            del whole[place:]
    judge_whole(bytes(whole))


@given(packed=st.binary(min_size=1, max_size=200), stated=st.integers(0, 1 << 20), framed=st.booleans())
@settings(max_examples=200, deadline=None)
def test_arbitrary_bytes_are_no_batch(packed: bytes, stated: int, framed: bool) -> None:
    if framed:  # sound zstd around anything
        packed, stated = zstandard.ZstdCompressor().compress(packed), len(packed)
    batch = bulk.BulkBatch(batch=1, records_zstd=packed, records_bytes=stated)
    came = outcome(partial(records.unpack, batch, agent=AGENT, decompressed_bytes=1 << 20, batch_records=500))
    assert isinstance(came, Rejected) or all(isinstance(r, Record) for r in cast("list[object]", came))


@given(st.binary(max_size=100))
@settings(max_examples=100, deadline=None)
def test_arbitrary_bytes_are_a_record_or_rejected(data: bytes) -> None:
    assert isinstance(outcome(partial(records.decode, data, AGENT)), Record | Rejected)
    assert isinstance(outcome(partial(records.decode_detections, data)), Detections | Rejected)


MANY = 4 << 20


@pytest.mark.parametrize(
    ("name", "inner"),
    [
        ("hello", b"\x32\x00" * MANY),
        ("ping", b"\x7a\x00" * MANY),
        ("bulk_batch", b"\x22\x00" * MANY),
        ("have", b"\x0a\x00" * MANY),
    ],
)
def test_a_few_bytes_that_claim_millions_of_parts_are_rejected_before_one_is_made(
    name: str, inner: bytes
) -> None:
    kind = pb.ToWorker.DESCRIPTOR.fields_by_name[name].number
    whole = fields.varint_bytes(kind << 3 | fields.BYTES) + fields.varint_bytes(len(inner)) + inner
    for unpack in (
        partial(multipart.unpack_to_worker, [bytes((kind,)), inner]),
        partial(envelope.unpack_to_worker, whole),
    ):
        tracemalloc.start()
        try:
            with pytest.raises(Rejected):
                unpack()
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak_bytes < len(inner) // 2


@pytest.mark.parametrize("before", [b"", b"\x52", b"\x1a"], ids=["an envelope", "a frame", "a body"])
def test_an_envelope_a_frame_and_a_body_of_more_than_a_few_fields_are_rejected(before: bytes) -> None:
    """The fields of those are counted as they are read, so that the rest is never looked at."""
    inner = b"\x0a\x00" * MANY
    whole = before + fields.varint_bytes(len(inner)) + inner if before else inner
    with pytest.raises(Rejected, match="more than 16 fields"):
        envelope.unpack_to_worker(whole)


def test_a_batch_of_millions_of_empty_records_is_rejected_before_one_is_made() -> None:
    data = b"\x0a\x00" * MANY
    batch = bulk.BulkBatch(
        batch=1, records_zstd=zstandard.ZstdCompressor().compress(data), records_bytes=len(data)
    )
    with pytest.raises(Rejected, match="more than 4097 fields"):
        records.unpack(batch, agent=AGENT, decompressed_bytes=64 << 20, batch_records=4096)
