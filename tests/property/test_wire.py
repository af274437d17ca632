"""Whatever a message holds, it crosses unchanged, on both wires."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import Rejected
from pipelines.frame import Encoding
from pipelines.result import Detections, Record
from protos import inference_pb2 as pb
from protos.wire import bulk, envelope, live, messages, multipart, records, session
from protos.wire.session import Lane
from tests.support.wire_messages import (
    AGENT,
    detections,
    names,
    record_values,
    to_agent,
    to_worker,
    u32,
    u64,
    value,
)


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
    body = replace(body, stream=head.stream, seq=head.seq)
    parts = multipart.pack_frame(head, body)
    assert len(parts) == 3
    assert parts[2] is body.data
    assert [value(m) for m in multipart.messages_to_worker(parts)] == [value(head), value(body)]


@pytest.mark.parametrize(
    "parts", [(b"\x0a", b""), (b"\x0a", b"\xff", b"picture"), (b"\x0a", b"\x0a" * 2000, b"")]
)
def test_a_frame_without_a_body_or_with_a_damaged_head_is_refused(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(Rejected):
        multipart.messages_to_worker(parts)


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


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_box_or_score_that_is_no_number_is_refused(bad):
    boxes = np.array([[0, 0, 1, bad]], np.float32)
    seen = Detections(boxes, np.array([0.5], np.float32), np.array([0], np.uint16))
    with pytest.raises(Rejected, match="not a number"):
        records.decode_detections(records.encode_detections(seen))


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
