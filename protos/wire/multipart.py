"""ZeroMQ's shape of the wire: `[kind, header, payload?]`, kind one byte; only FrameBody has a payload."""

from collections.abc import Sequence

from pipelines.errors import Rejected
from protos.wire import frames, live, messages
from protos.wire.messages import ToAgent, ToWorker

Parts = tuple[live.Buffer, ...]

_KINDS = tuple(bytes((kind,)) for kind in range(256))


def pack_to_worker(message: ToWorker) -> Parts:
    """Parts to send; the payload is the caller's own buffer, not a copy."""
    kind = _KINDS[messages.kind_to_worker(message)]
    if isinstance(message, live.FrameBody):
        return kind, frames.body_header(message), message.data
    return kind, messages.encode(message).SerializeToString()


def pack_to_agent(message: ToAgent) -> Parts:
    return _KINDS[messages.kind_to_agent(message)], messages.encode(message).SerializeToString()


def unpack_to_worker(parts: Sequence[live.Buffer], *, agent: str = "") -> ToWorker:
    """Rejected for anything an agent of this protocol would not send."""
    kind, header, payload = _split(parts)
    message = messages.decode_to_worker(kind, header, payload, agent=agent)
    if (payload is not None) != isinstance(message, live.FrameBody):
        raise Rejected("only a frame's body comes with a payload part")
    return message


def unpack_to_agent(parts: Sequence[live.Buffer], *, agent: str = "") -> ToAgent:
    """Rejected for anything a worker of this protocol would not send."""
    kind, header, payload = _split(parts)
    if payload is not None:
        raise Rejected("no message to an agent has a payload part")
    return messages.decode_to_agent(kind, header, agent=agent)


def _split(parts: Sequence[live.Buffer]) -> tuple[int, live.Buffer, live.Buffer | None]:
    count = len(parts)
    if not 2 <= count <= 3 or len(parts[0]) != 1:
        raise Rejected(f"{count} parts are not [kind, header, payload?]")
    return parts[0][0], parts[1], parts[2] if count == 3 else None
