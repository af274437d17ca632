"""ZeroMQ's shape of the wire: `[kind, header, payload?]`, kind one byte; a payload comes with FrameBody, and with Frame,
whose header is that of its head.
"""

from collections.abc import Sequence
from typing import cast

from pipelines.errors import Rejected
from protos import inference_pb2 as pb
from protos.wire import frames, live, messages
from protos.wire.messages import ToAgent, ToWorker

Parts = tuple[live.Buffer, ...]

_FRAME = pb.ToWorker.DESCRIPTOR.fields_by_name["frame"].number
_FRAME_HEAD = pb.ToWorker.DESCRIPTOR.fields_by_name["frame_head"].number
_FRAME_BODY = pb.ToWorker.DESCRIPTOR.fields_by_name["frame_body"].number
_RESULT = pb.ToAgent.DESCRIPTOR.fields_by_name["result"].number
_SMALL_BYTES = 1 << 10
_KINDS = tuple(bytes((kind,)) for kind in range(256))


def pack_to_worker(message: ToWorker) -> Parts:
    """Parts to send; the payload is the caller's own buffer, not a copy."""
    kind = _KINDS[messages.kind_to_worker(message)]
    if isinstance(message, live.FrameBody):
        return kind, frames.body_header(message), message.data
    return kind, messages.encode(message).SerializeToString()


def pack_to_agent(message: ToAgent) -> Parts:
    return _KINDS[messages.kind_to_agent(message)], messages.encode(message).SerializeToString()


def pack_frame(head: live.FrameHead, body: live.FrameBody) -> Parts:
    """A head and its body in one message; they are of one frame."""
    return _KINDS[_FRAME], messages.encode(head).SerializeToString(), body.data


def messages_to_worker(parts: Sequence[live.Buffer], *, agent: str = "") -> tuple[ToWorker, ...]:
    """The message, or a frame's head and body. Rejected as `unpack_to_worker`."""
    kind, header, payload = _split(parts)
    if kind != _FRAME or payload is None:
        return (unpack_to_worker(parts, agent=agent),)
    if len(header) <= _SMALL_BYTES:
        head = frames.read_head(header)
    else:
        head = cast("live.FrameHead", messages.decode_to_worker(_FRAME_HEAD, header, agent=agent))
    return head, live.FrameBody(stream=head.stream, seq=head.seq, data=payload)


def unpack_to_worker(parts: Sequence[live.Buffer], *, agent: str = "") -> ToWorker:
    """Rejected for anything an agent of this protocol would not send."""
    kind, header, payload = _split(parts)
    if len(header) <= _SMALL_BYTES:  # nearly always, and one of these two
        if kind == _FRAME_BODY and payload is not None:
            return frames.read_body(header, payload)
        if kind == _FRAME_HEAD and payload is None:
            return frames.read_head(header)
    message = messages.decode_to_worker(kind, header, payload, agent=agent)
    if (payload is not None) != isinstance(message, live.FrameBody):
        raise Rejected("only a frame's body comes with a payload part")
    return message


def unpack_to_agent(parts: Sequence[live.Buffer], *, agent: str = "") -> ToAgent:
    """Rejected for anything a worker of this protocol would not send."""
    kind, header, payload = _split(parts)
    if payload is not None:
        raise Rejected("no message to an agent has a payload part")
    if kind == _RESULT:
        return frames.read_result(header)
    return messages.decode_to_agent(kind, header, agent=agent)


def _split(parts: Sequence[live.Buffer]) -> tuple[int, live.Buffer, live.Buffer | None]:
    count = len(parts)
    if not 2 <= count <= 3 or len(parts[0]) != 1:
        raise Rejected(f"{count} parts are not [kind, header, payload?]")
    return parts[0][0], parts[1], parts[2] if count == 3 else None
