"""The three messages of every far frame, domain value ↔ message: head and body up, result down.

Nearly all that crosses are these, while a frame waits: each is made and read here in one place, in as few steps as
protobuf allows. What does not fit raises Rejected, nothing else.
"""

from typing import Any

from google.protobuf.message import DecodeError

from pipelines.errors import Rejected
from pipelines.result import PRIORITIES
from protos import inference_pb2 as pb
from protos.wire import values
from protos.wire.fields import varint_bytes
from protos.wire.live import Buffer, FrameBody, FrameHead, Result

_NUMBER = {priority: number for number, priority in enumerate(PRIORITIES)}


def head_to(head: FrameHead) -> pb.FrameHead:
    message = pb.FrameHead()
    message.stream = head.stream
    message.seq = head.seq
    message.worker_budget_us = head.worker_budget_us
    message.sent_mono_us = head.sent_mono_us
    values.encoding_into(message.encoding, head.encoding)
    message.priority = _NUMBER[head.priority]
    message.probe = head.probe
    message.traceparent = head.traceparent
    message.source_width_px = head.source_width_px
    message.source_height_px = head.source_height_px
    return message


def head_from(message: Any) -> FrameHead:
    """One that contradicts itself is still the head of a frame: that is told as its `fault`."""
    encoding, fault = values.encoding_of(message.encoding)
    priority = message.priority
    if priority >= len(PRIORITIES):
        fault = fault or f"unknown priority {priority}"
        priority = len(PRIORITIES) - 1
    width_px, height_px = message.source_width_px, message.source_height_px
    return FrameHead(
        stream=message.stream,
        seq=message.seq,
        worker_budget_us=message.worker_budget_us,
        sent_mono_us=message.sent_mono_us,
        encoding=encoding,
        priority=PRIORITIES[priority],
        probe=message.probe,
        traceparent=message.traceparent,
        source_width_px=width_px,
        source_height_px=height_px,
        fault=fault or values.source_fault(width_px, height_px),
    )


def read_head(data: Buffer) -> FrameHead:
    try:
        message = pb.FrameHead.FromString(bytes(data))
    except DecodeError as error:
        raise Rejected(f"damaged frame_head: {error}") from error
    return head_from(message)


def read_body(header: Buffer, payload: Buffer) -> FrameBody:
    try:
        message = pb.FrameBody.FromString(bytes(header))
    except DecodeError as error:
        raise Rejected(f"damaged frame_body: {error}") from error
    return FrameBody(stream=message.stream, seq=message.seq, data=payload)


def read_result(data: Buffer) -> Result:
    try:
        message = pb.Result.FromString(bytes(data))
    except DecodeError as error:
        raise Rejected(f"damaged result: {error}") from error
    return result_from(message)


def body_header(body: FrameBody) -> bytes:
    """A serialised FrameBody without its data."""
    stream = b"\x08" + varint_bytes(body.stream) if body.stream else b""
    return stream + b"\x10" + varint_bytes(body.seq) if body.seq else stream


def body_from(message: Any, payload: Buffer | None) -> FrameBody:
    return FrameBody(
        stream=message.stream, seq=message.seq, data=message.data if payload is None else payload
    )


def result_to(result: Result) -> pb.Result:
    message = pb.Result()
    message.stream = result.stream
    message.seq = result.seq
    values.detections_into(message.detections, result.detections)
    message.model = result.model
    message.model_sha256 = result.model_sha256
    values.timing_into(message.timing, result.timing)
    values.load_into(message.load, result.load)
    return message


def result_from(message: Any) -> Result:
    return Result(
        stream=message.stream,
        seq=message.seq,
        detections=values.detections_from(message.detections),
        model=message.model,
        model_sha256=message.model_sha256,
        timing=values.timing_from(message.timing),
        load=values.load_from(message.load),
    )
