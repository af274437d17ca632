"""gRPC's shape of the wire: one serialised ToWorker or ToAgent per message, framed and read by hand.

What any protobuf library writes is read, and what is written any of them reads; a frame's payload is copied
once on the way out and never on the way in. Damaged or unknown input raises Rejected, nothing else.
"""

from pipelines.errors import Rejected
from protos import inference_pb2 as pb
from protos.wire import frames, live, messages
from protos.wire.fields import BYTES, fields, varint, varint_bytes, whole
from protos.wire.messages import ToAgent, ToWorker
from protos.wire.session import Lane

_SERVICE = pb.DESCRIPTOR.services_by_name["Inference"]
SERVICE = str(_SERVICE.full_name)
METHODS = {
    Lane.LIVE: f"/{SERVICE}/{_SERVICE.methods_by_name['Live'].name}",
    Lane.BULK: f"/{SERVICE}/{_SERVICE.methods_by_name['Bulk'].name}",
}
"""The path of each lane's call: a bidirectional stream of ToWorker and ToAgent."""
INFER = f"/{SERVICE}/{_SERVICE.methods_by_name['Infer'].name}"
"""The path of the call that simple clients make: one `protos.wire.infer` request, one reply."""
OVERHEAD_BYTES = 1024
"""Most that an envelope and a frame's head add to a payload."""

_FRAME = pb.ToWorker.DESCRIPTOR.fields_by_name["frame"].number
_FRAME_HEAD = pb.ToWorker.DESCRIPTOR.fields_by_name["frame_head"].number
_FRAME_KEY = _FRAME << 3 | BYTES
_RESULT_KEY = pb.ToAgent.DESCRIPTOR.fields_by_name["result"].number << 3 | BYTES
_SMALL_BYTES = 1 << 10
_FRAME_BODY = pb.ToWorker.DESCRIPTOR.fields_by_name["frame_body"].number
_HEAD_KEY, _BODY_KEY = 1 << 3 | BYTES, 2 << 3 | BYTES  # of a Frame
_SEQ_KEY, _DATA_KEY = 2 << 3, 3 << 3 | BYTES  # of a FrameBody
_MOST_FIELDS = 16
"""Of an envelope, a frame or a body: they have three at most, the rest is for later versions."""


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
    frame = whole(data, _FRAME_KEY)  # nearly always
    if frame is None:
        kind, inner = _open(data)
        if kind == _FRAME_BODY:
            return (_frame_body(inner),)
        if kind != _FRAME:
            return (messages.decode_to_worker(kind, inner, agent=agent),)
        frame = inner
    head, body = _halves(frame)
    if len(head) > _SMALL_BYTES:
        return messages.decode_to_worker(_FRAME_HEAD, head, agent=agent), _frame_body(body)
    return frames.read_head(head), _frame_body(body)


def unpack_to_agent(data: bytes, *, agent: str = "") -> ToAgent:
    """Rejected for anything a worker of this protocol would not send."""
    result = whole(data, _RESULT_KEY)
    if result is not None:
        return frames.read_result(result)
    kind, inner = _open(data)
    return messages.decode_to_agent(kind, inner, agent=agent)


def _tag(kind: int, size: int) -> bytes:
    return varint_bytes(kind << 3 | BYTES) + varint_bytes(size)


def _frame_body_head(body: live.FrameBody) -> bytes:
    """A serialised FrameBody up to its data, its last field: protobuf itself would copy that three times."""
    head, size_bytes = frames.body_header(body), len(body.data)
    return head + b"\x1a" + varint_bytes(size_bytes) if size_bytes else head


def _open(data: bytes) -> tuple[int, memoryview]:
    """The kind and bytes of the message inside; what a later version may add after it is passed over."""
    found = fields(memoryview(data), most=_MOST_FIELDS)
    inside = [(number, value) for number, value in found if isinstance(value, memoryview)]
    if not inside:
        raise Rejected("an envelope without a message")
    return inside[0]


def _halves(frame: memoryview) -> tuple[memoryview, memoryview]:
    """The head and the body of a frame, as serialised; Rejected without both."""
    if len(frame) and frame[0] == _HEAD_KEY:
        size, at = varint(frame, 1)
        body = whole(frame, _BODY_KEY, at + size)
        if body is not None:
            return frame[at : at + size], body
    found = fields(frame, most=_MOST_FIELDS)
    parts = {number: value for number, value in found if isinstance(value, memoryview)}
    if not {1, 2} <= set(parts):
        raise Rejected("a frame has a head and a body")
    return parts[1], parts[2]


def _frame_body(inner: memoryview) -> live.FrameBody:
    if len(inner) and inner[0] == _SEQ_KEY:  # of the first stream, as ours are made
        seq, at = varint(inner, 1)
        payload = whole(inner, _DATA_KEY, at)
        if payload is not None:
            return live.FrameBody(stream=0, seq=seq, data=payload)
    stream, seq = 0, 0
    data: live.Buffer = b""
    for number, value in fields(inner, most=_MOST_FIELDS):
        match number, value:
            case 1, int():
                stream = value & 0xFFFFFFFF
            case 2, int():
                seq = value
            case 3, memoryview():
                data = value
    return live.FrameBody(stream=stream, seq=seq, data=data)
