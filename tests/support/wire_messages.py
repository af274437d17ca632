"""What may be said over a link: a strategy for each message, and messages as values that can be compared."""

from collections.abc import Callable
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from typing import Any

import numpy as np
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
from protos.wire import bulk, live, session
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
loads = st.builds(
    Load, queue_frames=u32, queue_us=i64, service_p50_us=i64, service_p95_us=i64, window_frames=u32
)
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
        input_width_px=u32,
        input_height_px=u32,
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
        takes_frames=st.booleans(),
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
    session.Error: st.builds(session.Error, retry=st.booleans(), batch=u64, have=u64, **rejections),
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


def outcome(attempt: Callable[[], object]) -> object:
    """What came of it, or its Rejected; any other exception fails the test by itself."""
    try:
        return attempt()
    except Rejected as refusal:
        return refusal
