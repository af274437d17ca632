"""A payload that is offered on the bulk lane, domain value ↔ message."""

from typing import Any

from pipelines.errors import Rejected
from pipelines.frame import FrameId
from pipelines.result import PRIORITIES
from protos import inference_pb2 as pb
from protos.wire import values
from protos.wire.bulk import HavePayload


def have_payload_to(value: HavePayload) -> pb.HavePayload:
    return pb.HavePayload(
        id=pb.FrameId(run=value.id.run, stream=value.id.stream, seq=value.id.seq),
        sha256=value.sha256,
        size_bytes=value.size_bytes,
        encoding=values.encoding_to(value.encoding),
        source_width_px=value.source_size[0],
        source_height_px=value.source_size[1],
        priority=PRIORITIES.index(value.priority),
        hard=value.hard,
    )


def have_payload_from(message: Any, agent: str) -> HavePayload:
    """`agent` comes from the connection's Hello. Rejected when sizes contradict each other."""
    fault = values.source_fault(message.source_width_px, message.source_height_px)
    if fault:
        raise Rejected(fault)
    return HavePayload(
        id=FrameId(agent, values.run_bytes(message.id.run), message.id.stream, message.id.seq),
        sha256=message.sha256,
        size_bytes=message.size_bytes,
        encoding=values.encoding_from(message.encoding),
        source_size=(message.source_width_px, message.source_height_px),
        priority=values.priority(message.priority),
        hard=message.hard,
    )
