"""From domain value to protobuf message; a FrameBody without its data, which travels as a payload."""

from typing import cast

from google.protobuf.message import Message

from protos import inference_pb2 as pb
from protos.wire import bulk, frames, live, payloads, session, values
from protos.wire.unions import ToAgent, ToWorker
from protos.wire.values import LANES, REASONS


def encode(message: ToWorker | ToAgent) -> Message:
    """The inner protobuf message; a FrameBody without its data."""
    if isinstance(message, live.FrameHead):
        return frames.head_to(message)
    if isinstance(message, live.Result):
        return frames.result_to(message)
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
                input_width_px=message.input_width_px,
                input_height_px=message.input_height_px,
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
                    payload_bytes=message.limits.payload_bytes,
                ),
                credit=pb.Credit(frames=message.credit.frames, bytes=message.credit.bytes),
                takes_frames=message.takes_frames,
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
                batch=message.batch,
                have=message.have,
            )
        case live.FrameBody():
            return pb.FrameBody(stream=message.stream, seq=message.seq)
        case live.Cancel():
            return pb.Cancel(stream=message.stream, seq=message.seq)
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
            return pb.Have(payloads=map(payloads.have_payload_to, message.payloads), have=message.have)
        case bulk.Need():
            return pb.Need(
                wants=[pb.Want(index=w.index, offset_bytes=w.offset_bytes) for w in message.wants],
                have=message.have,
                refusals=[pb.Refusal(index=r.index, text=r.text) for r in message.refusals],
            )
        case bulk.BulkBatch():
            return pb.BulkBatch(
                batch=message.batch,
                records_zstd=message.records_zstd,
                records_bytes=message.records_bytes,
                chunks=[
                    pb.Chunk(index=c.index, offset_bytes=c.offset_bytes, data=c.data, have=c.have)
                    for c in message.chunks
                ],
                gaps=[values.gap_to(g) for g in message.gaps],
            )
