"""Every message of the wire: domain value ↔ (kind, protobuf bytes, payload).

`kind` is the field number of the oneof in ToWorker or ToAgent. Only FrameBody has a payload, which is
never copied into the header. Damaged or unknown input raises Rejected, nothing else.
"""

from typing import Any, cast

from google.protobuf.message import DecodeError, Message

from pipelines.errors import Rejected
from pipelines.frame import FrameId
from pipelines.result import PRIORITIES
from protos import inference_pb2 as pb
from protos.wire import bulk, live, session, values
from protos.wire.session import Lane, RejectReason

ToWorker = (
    session.Hello
    | live.FrameHead
    | live.FrameBody
    | live.Cancel
    | session.Ping
    | session.Pong
    | bulk.Have
    | bulk.BulkBatch
    | session.Goodbye
)
ToAgent = (
    session.Welcome
    | live.Result
    | live.Reject
    | bulk.Ack
    | session.Ping
    | session.Pong
    | bulk.Need
    | session.Credit
    | session.Error
)

LANES = {lane: pb.Lane.Value(f"LANE_{lane.name}") for lane in Lane}
REASONS = {r: pb.RejectReason.Value(f"REJECT_REASON_{r.name}") for r in RejectReason}

_TO_WORKER_FIELDS: dict[type, str] = {
    session.Hello: "hello",
    live.FrameHead: "frame_head",
    live.FrameBody: "frame_body",
    live.Cancel: "cancel",
    session.Ping: "ping",
    session.Pong: "pong",
    bulk.Have: "have",
    bulk.BulkBatch: "bulk_batch",
    session.Goodbye: "goodbye",
}
_TO_AGENT_FIELDS: dict[type, str] = {
    session.Welcome: "welcome",
    live.Result: "result",
    live.Reject: "reject",
    bulk.Ack: "ack",
    session.Ping: "ping",
    session.Pong: "pong",
    bulk.Need: "need",
    session.Credit: "credit",
    session.Error: "error",
}


def _kinds(
    union: type[Message], fields: dict[type, str]
) -> tuple[dict[type, int], dict[int, tuple[str, Any]]]:
    by_name = union.DESCRIPTOR.fields_by_name
    out = {cls: by_name[name].number for cls, name in fields.items()}
    back: dict[int, tuple[str, Any]] = {}
    for name in fields.values():
        inner: Any = by_name[name].message_type
        back[by_name[name].number] = (name, getattr(pb, inner.name))
    return out, back


_TO_WORKER_KIND, _FROM_AGENT = _kinds(pb.ToWorker, _TO_WORKER_FIELDS)
_TO_AGENT_KIND, _FROM_WORKER = _kinds(pb.ToAgent, _TO_AGENT_FIELDS)


def kind_to_worker(message: ToWorker) -> int:
    return _TO_WORKER_KIND[type(message)]


def kind_to_agent(message: ToAgent) -> int:
    return _TO_AGENT_KIND[type(message)]


def encode(message: ToWorker | ToAgent) -> Message:
    """The inner protobuf message; a FrameBody without its data."""
    match message:
        case session.Hello():
            return pb.Hello(
                protocol_min=message.protocol_min,
                protocol_max=message.protocol_max,
                agent=message.agent,
                run=message.run,
                lane=cast("pb.Lane", LANES[message.lane]),
                streams=[
                    pb.Stream(name=s.name, width_px=s.width_px, height_px=s.height_px)
                    for s in message.streams
                ],
                model=message.model,
                model_sha256=message.model_sha256,
                software=message.software,
            )
        case session.Welcome():
            return pb.Welcome(
                protocol=message.protocol,
                worker_run=message.worker_run,
                store_id=message.store_id,
                models=[
                    pb.Model(
                        name=m.name,
                        sha256=m.sha256,
                        labels=m.labels,
                        input_width_px=m.input_width_px,
                        input_height_px=m.input_height_px,
                    )
                    for m in message.models
                ],
                limits=pb.Limits(
                    message_bytes=message.limits.message_bytes,
                    picture_px=message.limits.picture_px,
                    decompressed_bytes=message.limits.decompressed_bytes,
                    batch_records=message.limits.batch_records,
                ),
                credit=pb.Credit(frames=message.credit.frames, bytes=message.credit.bytes),
            )
        case session.Credit():
            return pb.Credit(frames=message.frames, bytes=message.bytes)
        case session.Ping():
            return pb.Ping(nonce=message.nonce, sent_mono_us=message.sent_mono_us)
        case session.Pong():
            credit = message.credit
            return pb.Pong(
                nonce=message.nonce,
                arrived_mono_us=message.arrived_mono_us,
                resident_us=message.resident_us,
                load=values.load_to(message.load),
                credit=None if credit is None else pb.Credit(frames=credit.frames, bytes=credit.bytes),
            )
        case session.Goodbye():
            return pb.Goodbye(reason=message.reason)
        case session.Error():
            return pb.Error(
                reason=cast("pb.RejectReason", REASONS[message.reason]),
                text=message.text,
                retry=message.retry,
            )
        case live.FrameHead():
            return pb.FrameHead(
                stream=message.stream,
                seq=message.seq,
                worker_budget_us=message.worker_budget_us,
                sent_mono_us=message.sent_mono_us,
                encoding=values.encoding_to(message.encoding),
                priority=PRIORITIES.index(message.priority),
                probe=message.probe,
                traceparent=message.traceparent,
            )
        case live.FrameBody():
            return pb.FrameBody(stream=message.stream, seq=message.seq)
        case live.Cancel():
            return pb.Cancel(stream=message.stream, seq=message.seq)
        case live.Result():
            return pb.Result(
                stream=message.stream,
                seq=message.seq,
                detections=values.detections_to(message.detections, with_labels=False),
                model=message.model,
                model_sha256=message.model_sha256,
                timing=values.timing_to(message.timing),
                load=values.load_to(message.load),
            )
        case live.Reject():
            return pb.Reject(
                stream=message.stream,
                seq=message.seq,
                reason=cast("pb.RejectReason", REASONS[message.reason]),
                queue_us=message.queue_us,
                load=values.load_to(message.load),
                text=message.text,
            )
        case bulk.Ack():
            return pb.Ack(
                records=[
                    pb.RecordRange(run=r.run, stream=r.stream, first=r.first, last=r.last)
                    for r in message.records
                ],
                payloads=[pb.FrameId(run=p.run, stream=p.stream, seq=p.seq) for p in message.payloads],
                batches=message.batches,
            )
        case bulk.Have():
            return pb.Have(
                payloads=[
                    pb.HavePayload(
                        id=pb.FrameId(run=p.id.run, stream=p.id.stream, seq=p.id.seq),
                        sha256=p.sha256,
                        size_bytes=p.size_bytes,
                        encoding=values.encoding_to(p.encoding),
                    )
                    for p in message.payloads
                ]
            )
        case bulk.Need():
            return pb.Need(wants=[pb.Want(index=w.index, offset_bytes=w.offset_bytes) for w in message.wants])
        case bulk.BulkBatch():
            return pb.BulkBatch(
                batch=message.batch,
                records_zstd=message.records_zstd,
                records_bytes=message.records_bytes,
                chunks=[
                    pb.Chunk(index=c.index, offset_bytes=c.offset_bytes, data=c.data) for c in message.chunks
                ],
                gaps=[values.gap_to(g) for g in message.gaps],
            )


def _decode(name: str, m: Any, payload: live.Buffer | None, agent: str) -> ToWorker | ToAgent:
    match name:
        case "hello":
            return session.Hello(
                protocol_min=m.protocol_min,
                protocol_max=m.protocol_max,
                agent=m.agent,
                run=values.run_bytes(m.run),
                lane=values.member(LANES, m.lane),
                streams=tuple(
                    session.StreamInfo(name=s.name, width_px=s.width_px, height_px=s.height_px)
                    for s in m.streams
                ),
                model=m.model,
                model_sha256=m.model_sha256,
                software=m.software,
            )
        case "welcome":
            return session.Welcome(
                protocol=m.protocol,
                worker_run=values.run_bytes(m.worker_run),
                store_id=m.store_id,
                models=tuple(
                    session.ModelInfo(
                        name=x.name,
                        sha256=x.sha256,
                        labels=tuple(x.labels),
                        input_width_px=x.input_width_px,
                        input_height_px=x.input_height_px,
                    )
                    for x in m.models
                ),
                limits=session.Limits(
                    message_bytes=m.limits.message_bytes,
                    picture_px=m.limits.picture_px,
                    decompressed_bytes=m.limits.decompressed_bytes,
                    batch_records=m.limits.batch_records,
                ),
                credit=session.Credit(frames=m.credit.frames, bytes=m.credit.bytes),
            )
        case "credit":
            return session.Credit(frames=m.frames, bytes=m.bytes)
        case "ping":
            return session.Ping(nonce=m.nonce, sent_mono_us=m.sent_mono_us)
        case "pong":
            credit = session.Credit(frames=m.credit.frames, bytes=m.credit.bytes)
            return session.Pong(
                nonce=m.nonce,
                arrived_mono_us=m.arrived_mono_us,
                resident_us=m.resident_us,
                load=values.load_from(m.load),
                credit=credit if m.HasField("credit") else None,
            )
        case "goodbye":
            return session.Goodbye(reason=m.reason)
        case "error":
            return session.Error(reason=values.member(REASONS, m.reason), text=m.text, retry=m.retry)
        case "frame_head":
            return live.FrameHead(
                stream=m.stream,
                seq=m.seq,
                worker_budget_us=m.worker_budget_us,
                sent_mono_us=m.sent_mono_us,
                encoding=values.encoding_from(m.encoding),
                priority=values.priority(m.priority),
                probe=m.probe,
                traceparent=m.traceparent,
            )
        case "frame_body":
            return live.FrameBody(stream=m.stream, seq=m.seq, data=m.data if payload is None else payload)
        case "cancel":
            return live.Cancel(stream=m.stream, seq=m.seq)
        case "result":
            return live.Result(
                stream=m.stream,
                seq=m.seq,
                detections=values.detections_from(m.detections),
                model=m.model,
                model_sha256=m.model_sha256,
                timing=values.timing_from(m.timing),
                load=values.load_from(m.load),
            )
        case "reject":
            return live.Reject(
                stream=m.stream,
                seq=m.seq,
                reason=values.member(REASONS, m.reason),
                queue_us=m.queue_us,
                load=values.load_from(m.load),
                text=m.text,
            )
        case "ack":
            return bulk.Ack(
                records=tuple(
                    bulk.RecordRange(run=values.run_bytes(r.run), stream=r.stream, first=r.first, last=r.last)
                    for r in m.records
                ),
                payloads=tuple(FrameId(agent, values.run_bytes(p.run), p.stream, p.seq) for p in m.payloads),
                batches=tuple(m.batches),
            )
        case "have":
            return bulk.Have(
                payloads=tuple(
                    bulk.HavePayload(
                        id=FrameId(agent, values.run_bytes(p.id.run), p.id.stream, p.id.seq),
                        sha256=p.sha256,
                        size_bytes=p.size_bytes,
                        encoding=values.encoding_from(p.encoding),
                    )
                    for p in m.payloads
                )
            )
        case "need":
            return bulk.Need(
                wants=tuple(bulk.Want(index=w.index, offset_bytes=w.offset_bytes) for w in m.wants)
            )
        case "bulk_batch":
            return bulk.BulkBatch(
                batch=m.batch,
                records_zstd=m.records_zstd,
                records_bytes=m.records_bytes,
                chunks=tuple(
                    bulk.Chunk(index=c.index, offset_bytes=c.offset_bytes, data=c.data) for c in m.chunks
                ),
                gaps=tuple(values.gap_from(g) for g in m.gaps),
            )
        case _:  # pragma: no cover - the tables above name every field
            raise Rejected(f"unknown message {name}")


def decode_to_worker(
    kind: int, header: live.Buffer, payload: live.Buffer | None = None, *, agent: str = ""
) -> ToWorker:
    """What an agent sent; `agent` is the name its Hello gave."""
    return cast("ToWorker", _parse(_FROM_AGENT, kind, header, payload, agent))


def decode_to_agent(
    kind: int, header: live.Buffer, payload: live.Buffer | None = None, *, agent: str = ""
) -> ToAgent:
    """What a worker sent."""
    return cast("ToAgent", _parse(_FROM_WORKER, kind, header, payload, agent))


def _parse(
    table: dict[int, tuple[str, Any]], kind: int, header: live.Buffer, payload: live.Buffer | None, agent: str
) -> ToWorker | ToAgent:
    if kind not in table:
        raise Rejected(f"unknown kind {kind}")
    name, message_class = table[kind]
    try:
        message = message_class.FromString(bytes(header))
    except DecodeError as error:
        raise Rejected(f"damaged {name}: {error}") from error
    return _decode(name, message, payload, agent)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def frame_body_bytes(body: live.FrameBody) -> bytes:
    """A FrameBody as protobuf would serialise it, with one copy of the data instead of three.

    Written by hand because every access to a protobuf `bytes` field copies it.
    """
    head = b""
    if body.stream:
        head += b"\x08" + _varint(body.stream)
    if body.seq:
        head += b"\x10" + _varint(body.seq)
    if len(body.data):
        head += b"\x1a" + _varint(len(body.data))
    return b"".join((head, body.data))
