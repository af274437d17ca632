"""The values of `pipelines` as messages and back; whatever a peer sends is checked here."""

from collections.abc import Mapping
from enum import StrEnum
from math import isfinite
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import Rejected
from pipelines.frame import RUN_BYTES, Encoding, FrameId
from pipelines.result import (
    PRIORITIES,
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
from protos.wire.session import Lane, RejectReason

E = TypeVar("E", bound=StrEnum)

ANSWERED_BY: Mapping[AnsweredBy, int] = {m: pb.AnsweredBy.Value(f"ANSWERED_BY_{m.name}") for m in AnsweredBy}
STATUS: Mapping[Status, int] = {m: pb.Status.Value(f"STATUS_{m.name}") for m in Status}
GAP_REASON: Mapping[GapReason, int] = {m: pb.GapReason.Value(f"GAP_REASON_{m.name}") for m in GapReason}

_F4 = np.dtype("<f4")
_U2 = np.dtype("<u2")
_FEW_NUMBERS = 100
_MOST_LABELS = 1 << 16

LARGEST_SIDE_PX = 65_535
"""Of a frame as captured: no camera has more, and a box beyond it would say nothing."""

LANES = {lane: pb.Lane.Value(f"LANE_{lane.name}") for lane in Lane}
REASONS = {r: pb.RejectReason.Value(f"REJECT_REASON_{r.name}") for r in RejectReason}


def member(table: Mapping[E, int], number: int) -> E:
    """The enum member with this wire number; Rejected if there is none."""
    for key, value in table.items():
        if value == number:
            return key
    raise Rejected(f"unknown value {number} of {type(next(iter(table))).__name__}")


def priority(number: int) -> Priority:
    if number >= len(PRIORITIES):
        raise Rejected(f"unknown priority {number}")
    return PRIORITIES[number]


def run_bytes(value: bytes) -> bytes:
    if len(value) != RUN_BYTES:
        raise Rejected(f"a run is {RUN_BYTES} bytes, not {len(value)}")
    return value


def encoding_to(value: Encoding) -> pb.Encoding:
    message = pb.Encoding()
    encoding_into(message, value)
    return message


def encoding_into(message: pb.Encoding, value: Encoding) -> None:
    """As `encoding_to`, where the message is part of another: a finished one would be copied into it."""
    message.codec = value.codec
    message.quality = value.quality
    message.width_px = value.width_px
    message.height_px = value.height_px
    message.bits = value.bits
    message.channels = value.channels
    message.body_bytes = value.body_bytes
    message.decoded_bytes = value.decoded_bytes


def encoding_of(message: pb.Encoding) -> tuple[Encoding, str]:
    """What the message says, and in words how its sizes contradict each other; empty if they do not."""
    value = Encoding(
        codec=message.codec,
        quality=message.quality,
        width_px=message.width_px,
        height_px=message.height_px,
        bits=message.bits,
        channels=message.channels,
        body_bytes=message.body_bytes,
    )
    claimed_bytes, decoded_bytes = message.decoded_bytes, value.decoded_bytes
    if claimed_bytes == decoded_bytes:
        return value, ""
    return value, f"encoding claims {claimed_bytes} decoded bytes, its size says {decoded_bytes}"


def encoding_from(message: pb.Encoding) -> Encoding:
    """Rejected if the sizes claimed do not agree with each other."""
    value, fault = encoding_of(message)
    if fault:
        raise Rejected(fault)
    return value


def detections_to(value: Detections) -> pb.Detections:
    message = pb.Detections()
    detections_into(message, value)
    message.labels.extend(value.labels)
    return message


def detections_into(message: pb.Detections, value: Detections) -> None:
    """As `detections_to`, without labels, where the message is part of another."""
    message.boxes = _bytes(value.boxes, _F4)
    message.scores = _bytes(value.scores, _F4)
    message.class_ids = _bytes(value.class_ids, _U2)


def detections_from(message: pb.Detections, labels: tuple[str, ...] = ()) -> Detections:
    """Rejected if the columns are not of one length. `labels` serve where the message has none."""
    boxes, scores = message.boxes, message.scores
    own_labels = message.labels
    if len(own_labels) > _MOST_LABELS:
        raise Rejected(f"{len(own_labels)} labels; a class id tells {_MOST_LABELS} apart")
    if len(boxes) % _F4.itemsize:
        raise Rejected("detections do not fit together: the last box is cut")
    try:
        numbers = np.frombuffer(boxes + scores, _F4)
        count = len(boxes) // _F4.itemsize
        value = Detections(
            numbers[:count].reshape(-1, 4),
            numbers[count:],
            np.frombuffer(message.class_ids, _U2),
            tuple(own_labels) or labels,
        )
    except ValueError as error:
        raise Rejected(f"detections do not fit together: {error}") from error
    if not _all_finite(numbers):
        raise Rejected("a box or a score is not a number")
    return value


def _all_finite(numbers: NDArray[np.float32]) -> bool:
    if len(numbers) <= _FEW_NUMBERS:  # a few boxes: numpy would take longer to begin than this takes
        return all(map(isfinite, numbers.tolist()))
    return bool(np.isfinite(numbers).all())


def _bytes(column: NDArray[Any], wire: "np.dtype[Any]") -> bytes:
    same = column.dtype is wire or column.dtype == wire
    return (column if same else column.astype(wire)).tobytes()


def timing_to(value: WorkerTiming) -> pb.Timing:
    message = pb.Timing()
    timing_into(message, value)
    return message


def timing_into(message: pb.Timing, value: WorkerTiming) -> None:
    """As `timing_to`, where the message is part of another."""
    message.head_mono_us = value.head_mono_us
    message.body_mono_us = value.body_mono_us
    message.queue_us = value.queue_us
    message.decode_us = value.decode_us
    message.batch_wait_us = value.batch_wait_us
    message.detect_us = value.detect_us
    message.resident_us = value.resident_us
    message.batch_frames = value.batch_frames


def timing_from(message: pb.Timing) -> WorkerTiming:
    return WorkerTiming(
        head_mono_us=message.head_mono_us,
        body_mono_us=message.body_mono_us,
        queue_us=message.queue_us,
        decode_us=message.decode_us,
        batch_wait_us=message.batch_wait_us,
        detect_us=message.detect_us,
        resident_us=message.resident_us,
        batch_frames=message.batch_frames,
    )


def load_to(value: Load) -> pb.Load:
    message = pb.Load()
    load_into(message, value)
    return message


def load_into(message: pb.Load, value: Load) -> None:
    """As `load_to`, where the message is part of another."""
    message.queue_frames = value.queue_frames
    message.queue_us = value.queue_us
    message.service_p50_us = value.service_p50_us
    message.service_p95_us = value.service_p95_us
    message.window_frames = value.window_frames


def load_from(message: pb.Load) -> Load:
    return Load(
        queue_frames=message.queue_frames,
        queue_us=message.queue_us,
        service_p50_us=message.service_p50_us,
        service_p95_us=message.service_p95_us,
        window_frames=message.window_frames,
    )


def record_to(value: Record) -> pb.Record:
    return pb.Record(
        id=pb.FrameId(run=value.id.run, stream=value.id.stream, seq=value.id.seq),
        answered_by=cast("pb.AnsweredBy", ANSWERED_BY[value.answered_by]),
        status=cast("pb.Status", STATUS[value.status]),
        late_far=value.late_far,
        captured_unix_us=value.captured_unix_us,
        age_us=value.age_us,
        latency_us=value.latency_us,
        on_time=value.on_time,
        priority=PRIORITIES.index(value.priority),
        detections=None if value.detections is None else detections_to(value.detections),
        model=value.model,
        model_sha256=value.model_sha256,
        timing_us=value.timing_us,
    )


def record_from(message: pb.Record, agent: str) -> Record:
    """`agent` comes from the connection's Hello, never from the message."""
    return Record(
        id=FrameId(agent, run_bytes(message.id.run), message.id.stream, message.id.seq),
        answered_by=member(ANSWERED_BY, message.answered_by),
        status=member(STATUS, message.status),
        late_far=message.late_far,
        captured_unix_us=message.captured_unix_us,
        age_us=message.age_us,
        latency_us=message.latency_us,
        on_time=message.on_time,
        priority=priority(message.priority),
        detections=detections_from(message.detections) if message.HasField("detections") else None,
        model=message.model,
        model_sha256=message.model_sha256,
        timing_us=dict(message.timing_us),
    )


def gap_to(value: Gap) -> pb.Gap:
    return pb.Gap(
        run=value.run,
        stream=value.stream,
        first=value.first,
        last=value.last,
        reason=cast("pb.GapReason", GAP_REASON[value.reason]),
        detail=value.detail,
    )


def gap_from(message: pb.Gap) -> Gap:
    return Gap(
        run=run_bytes(message.run),
        stream=message.stream,
        first=message.first,
        last=message.last,
        reason=member(GAP_REASON, message.reason),
        detail=message.detail,
    )


def source_fault(width_px: int, height_px: int) -> str:
    """Why no frame can have been captured in this size; empty if one can, or if the size is left out."""
    if (width_px == 0) != (height_px == 0):
        return f"a frame of {width_px}x{height_px} px: give its width and its height, or neither"
    if max(width_px, height_px) > LARGEST_SIDE_PX:
        return f"a frame of {width_px}x{height_px} px: no side may exceed {LARGEST_SIDE_PX} px"
    return ""
