"""Every message of the wire: domain value ↔ (kind, protobuf bytes, payload).

`kind` is the field number of the oneof in ToWorker or ToAgent. Only FrameBody has a payload, which is
never copied into the header. Damaged or unknown input raises Rejected, nothing else.
"""

from typing import Any, cast

from google.protobuf.message import DecodeError, Message

from pipelines.errors import Rejected
from protos import inference_pb2 as pb
from protos.wire import bulk, inward, live, session
from protos.wire.fields import check_count
from protos.wire.outward import encode
from protos.wire.unions import ToAgent, ToWorker

__all__ = [
    "ToAgent",
    "ToWorker",
    "decode_to_agent",
    "decode_to_worker",
    "encode",
    "kind_to_agent",
    "kind_to_worker",
]

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


_LARGE = ("frame_body", "bulk_batch", "have")
_SMALL_BYTES = 1 << 18
"""Most of an agent's other messages, headers included: a Hello of 1000 streams with the longest names has 150 kB."""
_MOST_FIELDS = 1 << 16
"""Of a large one: more gaps and payloads than any worker takes in a batch."""


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


def decode_to_worker(
    kind: int, header: live.Buffer, payload: live.Buffer | None = None, *, agent: str = ""
) -> ToWorker:
    """What an agent sent; `agent` is the name its Hello gave."""
    _check_size(kind, header)
    return cast("ToWorker", _parse(_FROM_AGENT, kind, header, payload, agent))


def decode_to_agent(
    kind: int, header: live.Buffer, payload: live.Buffer | None = None, *, agent: str = ""
) -> ToAgent:
    """What a worker sent."""
    return cast("ToAgent", _parse(_FROM_WORKER, kind, header, payload, agent))


def _check_size(kind: int, header: live.Buffer) -> None:
    """Rejected if building the message would cost more than an agent can have meant."""
    if len(header) <= _SMALL_BYTES:
        return
    name, _ = _FROM_AGENT.get(kind, ("", None))
    if name not in _LARGE:
        raise Rejected(f"{name or 'an unknown message'} of {len(header)} bytes; {_SMALL_BYTES} are the most")
    if name != "frame_body":
        check_count(memoryview(header), most=_MOST_FIELDS)


def _parse(
    table: dict[int, tuple[str, Any]], kind: int, header: live.Buffer, payload: live.Buffer | None, agent: str
) -> ToWorker | ToAgent:
    found = table.get(kind)
    if found is None:
        raise Rejected(f"unknown kind {kind}")
    name, message_class = found
    try:
        message = message_class.FromString(bytes(header))
    except DecodeError as error:
        raise Rejected(f"damaged {name}: {error}") from error
    return inward.decode(name, message, payload, agent)
