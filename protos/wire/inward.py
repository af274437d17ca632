"""From protobuf message to domain value; what does not fit raises Rejected."""

from typing import Any

from pipelines.errors import Rejected
from pipelines.frame import FrameId
from protos.wire import bulk, frames, live, payloads, session, values
from protos.wire.unions import ToAgent, ToWorker
from protos.wire.values import LANES, REASONS

MOST_STREAMS = 1000
"""Of one agent; a worker's own limit is lower."""


def decode(name: str, m: Any, payload: live.Buffer | None, agent: str) -> ToWorker | ToAgent:
    match name:  # what comes with every frame first
        case "frame_head":
            return frames.head_from(m)
        case "frame_body":
            return frames.body_from(m, payload)
        case "result":
            return frames.result_from(m)
        case "hello":
            if len(m.streams) > MOST_STREAMS:
                raise Rejected(f"a Hello of {len(m.streams)} streams; {MOST_STREAMS} are the most")
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
                input_width_px=m.input_width_px,
                input_height_px=m.input_height_px,
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
                    payload_bytes=m.limits.payload_bytes,
                ),
                credit=session.Credit(frames=m.credit.frames, bytes=m.credit.bytes),
                takes_frames=m.takes_frames,
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
            return session.Error(
                reason=values.member(REASONS, m.reason),
                text=m.text,
                retry=m.retry,
                batch=m.batch,
                have=m.have,
            )
        case "cancel":
            return live.Cancel(stream=m.stream, seq=m.seq)
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
                payloads=tuple(payloads.have_payload_from(p, agent) for p in m.payloads), have=m.have
            )
        case "need":
            return bulk.Need(
                wants=tuple(bulk.Want(index=w.index, offset_bytes=w.offset_bytes) for w in m.wants),
                have=m.have,
                refusals=tuple(bulk.Refusal(index=r.index, text=r.text) for r in m.refusals),
            )
        case "bulk_batch":
            return bulk.BulkBatch(
                batch=m.batch,
                records_zstd=m.records_zstd,
                records_bytes=m.records_bytes,
                chunks=tuple(
                    bulk.Chunk(index=c.index, offset_bytes=c.offset_bytes, data=c.data, have=c.have)
                    for c in m.chunks
                ),
                gaps=tuple(values.gap_from(g) for g in m.gaps),
            )
        case _:  # pragma: no cover - the tables above name every field
            raise Rejected(f"unknown message {name}")
