"""Whatever a message holds it crosses unchanged; whatever bytes arrive they are a message or Rejected."""

import tracemalloc
from collections.abc import Callable
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import Rejected
from pipelines.frame import Encoding, FrameId
from pipelines.result import (
    AnsweredBy,
    Detections,
    Gap,
    GapReason,
    Load,
    Priority,
    Record,
    Status,
    WorkerTiming,
)
from protos import inference_pb2 as pb
from protos.wire import bulk, envelope, fields, live, messages, multipart, records, session
from protos.wire.session import Lane, RejectReason

AGENT = "gw"

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
words = st.text(max_size=20)
runs = st.binary(min_size=16, max_size=16)
labels = st.lists(words, max_size=3).map(tuple)


def tuples(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=3).map(tuple)


encodings = st.builds(
    Encoding,
    codec=words,
    quality=st.integers(0, 100),
    width_px=st.integers(0, 1 << 16),
    height_px=st.integers(0, 1 << 16),
    bits=st.integers(1, 16),
    channels=st.integers(1, 4),
    body_bytes=u64,
)
loads = st.builds(Load, queue_frames=u32, queue_us=i64, service_p50_us=i64, service_p95_us=i64)
credits_ = st.builds(session.Credit, frames=u32, bytes=u64)
timings = st.builds(
    WorkerTiming, **{f.name: u32 if f.name == "batch_frames" else i64 for f in fields_of(WorkerTiming)}
)
ids = st.builds(FrameId, agent=st.just(AGENT), run=runs, stream=words, seq=u64)
gaps = st.builds(
    Gap, run=runs, stream=words, first=u64, last=u64, reason=st.sampled_from(GapReason), detail=words
)


@st.composite
def detections(draw: st.DrawFn, with_labels: bool = True) -> Detections:
    count = draw(st.integers(0, 5))
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    boxes = draw(st.lists(number, min_size=4 * count, max_size=4 * count))
    scores = draw(st.lists(number, min_size=count, max_size=count))
    classes = draw(st.lists(st.integers(0, 65535), min_size=count, max_size=count))
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(scores, np.float32),
        np.array(classes, np.uint16),
        draw(labels) if with_labels else (),
    )


record_values = st.builds(
    Record,
    id=ids,
    answered_by=st.sampled_from(AnsweredBy),
    status=st.sampled_from(Status),
    late_far=st.booleans(),
    captured_unix_us=i64,
    age_us=i64,
    latency_us=i64,
    on_time=st.booleans(),
    priority=st.sampled_from(Priority),
    detections=st.none() | detections(),
    model=words,
    model_sha256=words,
    timing_us=st.dictionaries(words, i64, max_size=3),
)
pings = st.builds(session.Ping, nonce=u64, sent_mono_us=i64)
pongs = st.builds(
    session.Pong,
    nonce=u64,
    arrived_mono_us=i64,
    resident_us=i64,
    load=loads,
    credit=st.none() | credits_,
)
source_sizes = st.just((0, 0)) | st.tuples(st.integers(1, 65_535), st.integers(1, 65_535))


def head_of_size(source: tuple[int, int], **others: Any) -> live.FrameHead:
    return live.FrameHead(source_width_px=source[0], source_height_px=source[1], **others)


to_worker: dict[type, st.SearchStrategy[Any]] = {
    session.Hello: st.builds(
        session.Hello,
        agent=words,
        run=runs,
        lane=st.sampled_from(Lane),
        streams=tuples(st.builds(session.StreamInfo, name=words, width_px=u32, height_px=u32)),
        model=words,
        model_sha256=words,
        software=words,
        protocol_min=u32,
        protocol_max=u32,
    ),
    live.FrameHead: st.builds(
        head_of_size,
        source_sizes,
        stream=u32,
        seq=u64,
        worker_budget_us=i64,
        sent_mono_us=i64,
        encoding=encodings,
        priority=st.sampled_from(Priority),
        probe=st.booleans(),
        traceparent=words,
    ),
    live.FrameBody: st.builds(live.FrameBody, stream=u32, seq=u64, data=st.binary(max_size=200)),
    live.Cancel: st.builds(live.Cancel, stream=u32, seq=u64),
    session.Ping: pings,
    session.Pong: pongs,
    bulk.Have: st.builds(
        bulk.Have,
        payloads=tuples(
            st.builds(
                bulk.HavePayload,
                id=ids,
                sha256=st.binary(max_size=32),
                size_bytes=u64,
                encoding=encodings,
                source_size=source_sizes,
                priority=st.sampled_from(Priority),
                hard=st.booleans(),
            )
        ),
        have=u64,
    ),
    bulk.BulkBatch: st.builds(
        bulk.BulkBatch,
        batch=u64,
        records_zstd=st.binary(max_size=50),
        records_bytes=u64,
        chunks=tuples(
            st.builds(bulk.Chunk, index=u32, offset_bytes=u64, data=st.binary(max_size=20), have=u64)
        ),
        gaps=tuples(gaps),
    ),
    session.Goodbye: st.builds(session.Goodbye, reason=words),
}
rejections = {"reason": st.sampled_from(RejectReason), "text": words}
to_agent: dict[type, st.SearchStrategy[Any]] = {
    session.Welcome: st.builds(
        session.Welcome,
        worker_run=runs,
        store_id=words,
        models=tuples(
            st.builds(
                session.ModelInfo,
                name=words,
                sha256=words,
                labels=labels,
                input_width_px=u32,
                input_height_px=u32,
            )
        ),
        limits=st.builds(
            session.Limits,
            message_bytes=u64,
            picture_px=u64,
            decompressed_bytes=u64,
            batch_records=u32,
            payload_bytes=u64,
        ),
        credit=credits_,
        protocol=u32,
    ),
    live.Result: st.builds(
        live.Result,
        stream=u32,
        seq=u64,
        detections=detections(with_labels=False),
        model=words,
        model_sha256=words,
        timing=timings,
        load=loads,
    ),
    live.Reject: st.builds(live.Reject, stream=u32, seq=u64, queue_us=i64, load=loads, **rejections),
    bulk.Ack: st.builds(
        bulk.Ack,
        records=tuples(st.builds(bulk.RecordRange, run=runs, stream=words, first=u64, last=u64)),
        payloads=tuples(ids),
        batches=tuples(u64),
    ),
    session.Ping: pings,
    session.Pong: pongs,
    bulk.Need: st.builds(
        bulk.Need,
        wants=tuples(st.builds(bulk.Want, index=u32, offset_bytes=u64)),
        have=u64,
        refusals=tuples(st.builds(bulk.Refusal, index=u32, text=words)),
    ),
    session.Credit: credits_,
    session.Error: st.builds(session.Error, retry=st.booleans(), **rejections),
}


def value(message: Any) -> Any:
    """A message as comparable values, field by field: some messages compare by identity."""
    if isinstance(message, Detections):
        return message.boxes.tolist(), message.scores.tolist(), message.class_ids.tolist(), message.labels
    if is_dataclass(message):
        return type(message), {f.name: value(getattr(message, f.name)) for f in fields_of(message)}
    return bytes(message) if isinstance(message, memoryview | bytearray) else message


def names(strategies: dict[type, Any]) -> list[str]:
    return [kind.__name__ for kind in strategies]


def test_every_message_of_the_wire_is_among_those_tried_here() -> None:
    assert set(to_worker) == set(messages.ToWorker.__args__)
    assert set(to_agent) == set(messages.ToAgent.__args__)
    assert len(to_worker) == len(pb.ToWorker.DESCRIPTOR.fields) - 1, "all but Frame, which is two of them"
    assert len(to_agent) == len(pb.ToAgent.DESCRIPTOR.fields)


@pytest.mark.parametrize("kind", to_worker, ids=names(to_worker))
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_what_an_agent_says_arrives_as_it_was_said(kind: type, data: st.DataObject) -> None:
    message = data.draw(to_worker[kind])
    parts = multipart.pack_to_worker(message)
    assert len(parts) == (3 if kind is live.FrameBody else 2)
    assert value(multipart.unpack_to_worker([memoryview(p) for p in parts], agent=AGENT)) == value(message)
    whole = envelope.pack_to_worker(message)
    (again,) = envelope.unpack_to_worker(whole, agent=AGENT)
    assert value(again) == value(message)
    assert pb.ToWorker.FromString(whole).SerializeToString() == whole


@pytest.mark.parametrize("kind", to_agent, ids=names(to_agent))
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_what_a_worker_says_arrives_as_it_was_said(kind: type, data: st.DataObject) -> None:
    message = data.draw(to_agent[kind])
    parts = multipart.pack_to_agent(message)
    assert len(parts) == 2
    assert value(multipart.unpack_to_agent([memoryview(p) for p in parts], agent=AGENT)) == value(message)
    whole = envelope.pack_to_agent(message)
    assert value(envelope.unpack_to_agent(whole, agent=AGENT)) == value(message)
    assert pb.ToAgent.FromString(whole).SerializeToString() == whole


@pytest.mark.parametrize("size", [1, 30_000, 1_000_000])
def test_a_payload_crosses_without_being_copied_into_the_header(size: int) -> None:
    data = bytearray(size)
    _, header, payload = multipart.pack_to_worker(live.FrameBody(stream=1, seq=2, data=data))
    assert payload is data
    assert len(header) < 16


@given(stream=u32, seq=u64, data=st.binary(max_size=70_000))
@settings(max_examples=100, deadline=None)
def test_a_body_framed_by_hand_is_byte_for_byte_what_protobuf_writes(
    stream: int, seq: int, data: bytes
) -> None:
    body = live.FrameBody(stream=stream, seq=seq, data=memoryview(data))
    written = pb.ToWorker(frame_body=pb.FrameBody(stream=stream, seq=seq, data=data)).SerializeToString()
    assert envelope.pack_to_worker(body) == written
    (again,) = envelope.unpack_to_worker(written)
    assert value(again) == value(body)
    assert len(written) <= len(data) + envelope.OVERHEAD_BYTES


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_head_and_its_body_in_one_message_arrive_as_the_two_they_are(data: st.DataObject) -> None:
    head, body = data.draw(to_worker[live.FrameHead]), data.draw(to_worker[live.FrameBody])
    whole = envelope.pack_frame(head, body)
    assert [value(m) for m in envelope.unpack_to_worker(whole)] == [value(head), value(body)]
    assert pb.ToWorker.FromString(whole).SerializeToString() == whole
    assert len(whole) <= len(body.data) + envelope.OVERHEAD_BYTES


def outcome(attempt: Callable[[], object]) -> object:
    """What came of it, or its Rejected; any other exception fails the test by itself."""
    try:
        return attempt()
    except Rejected as refusal:
        return refusal


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


def test_fields_a_later_version_adds_to_an_envelope_or_a_body_are_passed_over() -> None:
    added = b"\xa0\x01\x07" + b"\xa2\x01\x02hi" + b"\xa5\x01\x00\x00\x00\x00" + b"\xa1\x01" + bytes(8)
    body = pb.FrameBody(stream=1, seq=2, data=b"picture").SerializeToString() + added
    whole = b"\x1a" + bytes([len(body)]) + body + added
    (again,) = envelope.unpack_to_worker(whole)
    assert value(again) == value(live.FrameBody(stream=1, seq=2, data=b"picture"))


@given(st.lists(record_values, max_size=5))
@settings(max_examples=100, deadline=None)
def test_records_cross_a_batch_unchanged(kept: list[Record]) -> None:
    packed, size = records.pack(kept)
    batch = bulk.BulkBatch(batch=1, records_zstd=packed, records_bytes=size)
    assert list(records.unpack(batch, agent=AGENT, decompressed_bytes=1 << 20, batch_records=500)) == kept
    for record in kept:
        assert records.decode(records.encode(record), AGENT) == record


@given(detections())
@settings(max_examples=50, deadline=None)
def test_detections_are_kept_with_their_labels(found: Detections) -> None:
    assert records.decode_detections(records.encode_detections(found)) == found


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


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_box_or_score_that_is_no_number_is_refused(bad):
    boxes = np.array([[0, 0, 1, bad]], np.float32)
    seen = Detections(boxes, np.array([0.5], np.float32), np.array([0], np.uint16))
    with pytest.raises(Rejected, match="not a number"):
        records.decode_detections(records.encode_detections(seen))


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


def test_a_hello_of_as_many_streams_as_an_agent_may_have_is_read_on_both_wires() -> None:
    names = [session.StreamInfo(name=f"{n:0>128}", width_px=2**32 - 1, height_px=1) for n in range(1000)]
    hello = session.Hello(agent=AGENT, run=bytes(16), lane=Lane.LIVE, streams=tuple(names))
    assert multipart.unpack_to_worker(multipart.pack_to_worker(hello)) == hello
    assert envelope.unpack_to_worker(envelope.pack_to_worker(hello)) == (hello,)


@pytest.mark.parametrize(("width_px", "height_px"), [(1, 0), (0, 1), (65_536, 1), (1, 2**32 - 1)])
def test_a_head_whose_frame_has_no_possible_size_says_so_and_is_still_the_head_of_a_frame(
    width_px: int, height_px: int
) -> None:
    head = live.FrameHead(
        stream=0,
        seq=7,
        worker_budget_us=1,
        sent_mono_us=1,
        encoding=Encoding(codec="jpeg", quality=1, width_px=8, height_px=8, body_bytes=1),
        source_width_px=width_px,
        source_height_px=height_px,
    )
    came = multipart.unpack_to_worker(multipart.pack_to_worker(head))
    assert isinstance(came, live.FrameHead)
    assert came.seq == 7
    assert f"{width_px}x{height_px} px" in came.fault
