"""Bare agents that speak the wire without a link: a DEALER, and a gRPC stream."""

import contextlib
import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import grpc
import zmq

from pipelines.frame import Encoding
from protos.wire import envelope
from protos.wire.live import FrameBody, FrameHead
from protos.wire.messages import ToAgent, ToWorker
from protos.wire.multipart import pack_to_worker, unpack_to_agent
from protos.wire.session import Hello, Lane, StreamInfo, Welcome

M = TypeVar("M")
HELLO = Hello(
    agent="gw", run=bytes(16), lane=Lane.LIVE, streams=(StreamInfo(name="door", width_px=640, height_px=480),)
)
WITHIN_S = 10.0


def frame(
    seq: int,
    data: bytes,
    *,
    codec: str = "jpeg",
    size: tuple[int, int] = (64, 48),
    source: tuple[int, int] = (640, 480),
) -> tuple[FrameHead, FrameBody]:
    """A frame captured as `source` and encoded as `size`, both (width_px, height_px)."""
    encoding = Encoding(codec=codec, quality=80, width_px=size[0], height_px=size[1], body_bytes=len(data))
    head = FrameHead(
        stream=0,
        seq=seq,
        worker_budget_us=5_000_000,
        sent_mono_us=0,
        encoding=encoding,
        source_width_px=source[0],
        source_height_px=source[1],
    )
    return head, FrameBody(stream=0, seq=seq, data=data)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


class Speaker(Protocol):
    """One connection to a worker."""

    def send(self, message: ToWorker) -> None: ...
    def send_raw(self, what: Any) -> None: ...
    def receive(self) -> ToAgent: ...
    def garbage(self) -> list[Any]: ...
    def close(self) -> None: ...


class ZmqSpeaker:
    def __init__(self, address: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.IPV6, "[" in address)
        self._socket.connect(address)

    def send(self, message: ToWorker) -> None:
        self._socket.send_multipart(pack_to_worker(message))

    def send_raw(self, what: Sequence[bytes]) -> None:
        self._socket.send_multipart(list(what))

    def receive(self) -> ToAgent:
        assert self._socket.poll(int(WITHIN_S * 1000)), "nothing came"
        return unpack_to_agent(self._socket.recv_multipart())

    def garbage(self) -> list[Any]:
        return [
            [b"\xc8", b""],
            [b"x"],
            [b"\x02", b"\xff\xff\xff"],
            [b"\x05", b"", b"payload"],
            [b"\x01"] * 5,
        ]

    def close(self) -> None:
        self._socket.close()
        self._context.term()


class GrpcSpeaker:
    """`error` is what the stream ended with."""

    def __init__(self, address: str, lane: Lane = Lane.LIVE) -> None:
        self.error: grpc.RpcError | None = None
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._channel = grpc.insecure_channel(
            address.removeprefix("grpc://"),
            options=(
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_http_proxy", 0),
                ("grpc.max_receive_message_length", -1),
            ),
        )
        method: Any = self._channel.stream_stream(envelope.METHODS[lane], None, None)
        self._call = method(iter(self._out.get, None), timeout=60)

    def send(self, message: ToWorker) -> None:
        self._out.put(envelope.pack_to_worker(message))

    def send_raw(self, what: bytes) -> None:
        self._out.put(what)

    def receive(self) -> ToAgent:
        try:
            return envelope.unpack_to_agent(next(self._call))
        except grpc.RpcError as error:
            self.error = error
            raise AssertionError(f"the stream ended: {error}") from error

    def garbage(self) -> list[Any]:
        return [b"", b"\xff" * 20, b"\x12\x7fshort", b"\x12\x03\xff\xff\xff", b"\xa2\x01\x01x", b"\x0f"]

    def close(self) -> None:
        self._out.put(None)
        self._call.cancel()
        self._channel.close()


class Agent:
    """One lane of an agent at `address`, a listener's own."""

    def __init__(self, address: str) -> None:
        self.speaker: Speaker = GrpcSpeaker(address) if address.startswith("grpc") else ZmqSpeaker(address)

    def send(self, *messages: ToWorker) -> None:
        for message in messages:
            self.speaker.send(message)

    def send_raw(self, what: Any) -> None:
        """One of `garbage`."""
        self.speaker.send_raw(what)

    def garbage(self) -> list[Any]:
        """What no agent of this protocol would send."""
        return self.speaker.garbage()

    def receive(self) -> ToAgent:
        return self.speaker.receive()

    def close(self) -> None:
        self.speaker.close()

    def until(self, kind: type[M]) -> M:
        """The next message of this kind, past others."""
        while True:
            message = self.receive()
            if isinstance(message, kind):
                return message


@contextmanager
def agent(address: str) -> Iterator[Agent]:
    with contextlib.closing(Agent(address)) as made:
        yield made


def greet(gateway: Agent, hello: Hello = HELLO) -> Welcome:
    """Say Hello; what the worker says to it."""
    gateway.send(hello)
    return gateway.until(Welcome)
