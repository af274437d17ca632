"""gRPC's shape of the wire: one serialised ToWorker or ToAgent per message, framed and read by hand.

What any protobuf library writes is read, and what is written any of them reads; a frame's payload is copied
once on the way out and never on the way in. Damaged or unknown input raises Rejected, nothing else.
"""

from collections.abc import Iterator

from pipelines.errors import Rejected
from protos import inference_pb2 as pb
from protos.wire import live, messages
from protos.wire.messages import ToAgent, ToWorker
from protos.wire.session import Lane

_SERVICE = pb.DESCRIPTOR.services_by_name["Inference"]
SERVICE = str(_SERVICE.full_name)
METHODS = {
    Lane.LIVE: f"/{SERVICE}/{_SERVICE.methods_by_name['Live'].name}",
    Lane.BULK: f"/{SERVICE}/{_SERVICE.methods_by_name['Bulk'].name}",
}
"""The path of each lane's call: a bidirectional stream of ToWorker and ToAgent."""
OVERHEAD_BYTES = 1024
"""Most that an envelope and a frame's head add to a payload."""

_FRAME = pb.ToWorker.DESCRIPTOR.fields_by_name["frame"].number
_FRAME_HEAD = pb.ToWorker.DESCRIPTOR.fields_by_name["frame_head"].number
_FRAME_BODY = pb.ToWorker.DESCRIPTOR.fields_by_name["frame_body"].number
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10


def pack_to_worker(message: ToWorker) -> bytes:
    if isinstance(message, live.FrameBody):
        head = _frame_body_head(message)
        size = len(head) + len(message.data)
        return b"".join((_tag(_FRAME_BODY, size), head, message.data))
    inner = messages.encode(message).SerializeToString()
    return _tag(messages.kind_to_worker(message), len(inner)) + inner


def pack_frame(head: live.FrameHead, body: live.FrameBody) -> bytes:
    """A head and its body in one message."""
    head_bytes = messages.encode(head).SerializeToString()
    body_head = _frame_body_head(body)
    first = _tag(1, len(head_bytes)) + head_bytes + _tag(2, len(body_head) + len(body.data)) + body_head
    return b"".join((_tag(_FRAME, len(first) + len(body.data)), first, body.data))


def pack_to_agent(message: ToAgent) -> bytes:
    inner = messages.encode(message).SerializeToString()
    return _tag(messages.kind_to_agent(message), len(inner)) + inner


def unpack_to_worker(data: bytes, *, agent: str = "") -> tuple[ToWorker, ...]:
    """The message, or a frame's head and body. Rejected for anything an agent of this protocol would not send."""
    kind, inner = _open(data)
    if kind == _FRAME_BODY:
        return (_frame_body(inner),)
    if kind != _FRAME:
        return (messages.decode_to_worker(kind, inner, agent=agent),)
    parts = {number: value for number, value in _fields(inner) if isinstance(value, memoryview)}
    if not {1, 2} <= set(parts):
        raise Rejected("a frame has a head and a body")
    return messages.decode_to_worker(_FRAME_HEAD, parts[1], agent=agent), _frame_body(parts[2])


def unpack_to_agent(data: bytes, *, agent: str = "") -> ToAgent:
    """Rejected for anything a worker of this protocol would not send."""
    kind, inner = _open(data)
    return messages.decode_to_agent(kind, inner, agent=agent)


def _tag(kind: int, size: int) -> bytes:
    return _varint_bytes(kind << 3 | _BYTES) + _varint_bytes(size)


def _frame_body_head(body: live.FrameBody) -> bytes:
    """A serialised FrameBody up to its data, its last field: protobuf itself would copy that three times."""
    head = b""
    if body.stream:
        head += b"\x08" + _varint_bytes(body.stream)
    if body.seq:
        head += b"\x10" + _varint_bytes(body.seq)
    if len(body.data):
        head += b"\x1a" + _varint_bytes(len(body.data))
    return head


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _open(data: bytes) -> tuple[int, memoryview]:
    """The kind and bytes of the message inside; what a later version may add after it is passed over."""
    inside = [(number, value) for number, value in _fields(memoryview(data)) if isinstance(value, memoryview)]
    if not inside:
        raise Rejected("an envelope without a message")
    return inside[0]


def _frame_body(inner: memoryview) -> live.FrameBody:
    stream, seq = 0, 0
    data: live.Buffer = b""
    for number, value in _fields(inner):
        match number, value:
            case 1, int():
                stream = value & 0xFFFFFFFF
            case 2, int():
                seq = value
            case 3, memoryview():
                data = value
    return live.FrameBody(stream=stream, seq=seq, data=data)


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Field numbers and values of one serialised message; fixed-width fields, of which we have none, are skipped."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif kind == _BYTES:
            size, at = _varint(data, at)
            if size > len(data) - at:
                raise Rejected(f"field {number} says {size} bytes and has {len(data) - at}")
            yield number, data[at : at + size]
            at += size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
            if at > len(data):
                raise Rejected(f"field {number} is cut short")
        else:
            raise Rejected(f"field {number} has the unknown wire type {kind}")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number at `at` and where the next thing begins."""
    value = 0
    for place in range(_MOST_VARINT_BYTES):
        if at >= len(data):
            raise Rejected("a number is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise Rejected("a number has more than ten bytes")
