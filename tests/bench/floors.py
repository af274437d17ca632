"""What the bare libraries cost: a peer that reads a frame and returns a small reply, and nothing else.

`python -m tests.bench.floors tcp|zmq|grpc` serves on loopback until stdin closes and prints its port. The bytes
are those of our own wire, part for part and message for message, and are put together while the clock runs, as ours
are: one message with head and body, as seven of our eight frames go on a network as quick as this one, and as two
(`zmq apart`, `grpc apart`) only to be reported beside it. A bare socket, below all of them, is given the length and
the body. One reply each.
"""

import queue
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import grpc
import zmq

from pipelines.runtime import tune

KIND = b"k"
HEAD = bytes(40)
BODY_HEADER = bytes(4)
REPLY_BYTES = 144
_LENGTH = struct.Struct("!I")
METHOD = "/floor.Floor/Live"
GRPC_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.use_local_subchannel_pool", 1),
)


class Floor(Protocol):
    """A client of a bare peer."""

    def send(self, body: bytes) -> None:
        """Send a frame."""
        ...

    def receive(self, body: bytes) -> None:
        """Wait for the next reply, which is to be that to a frame like `body`."""
        ...

    def close(self) -> None: ...


class TcpFloor:
    """A blocking socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, body: bytes) -> None:
        self._socket.sendall(_LENGTH.pack(len(body)))
        self._socket.sendall(body)

    def receive(self, body: bytes) -> None:
        _check(_read(self._socket, REPLY_BYTES), body)

    def close(self) -> None:
        self._socket.close()


class ZmqFloor:
    """A DEALER that sends `[kind, head, body]` and waits for `[kind, reply]`; `apart`: `[kind, head]` and
    `[kind, header, body]`."""

    def __init__(self, port: int, *, apart: bool = False) -> None:
        self._apart = apart
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.set(zmq.LINGER, 0)
        self._socket.connect(f"tcp://127.0.0.1:{port}")

    def send(self, body: bytes) -> None:
        if self._apart:
            self._socket.send_multipart([KIND, HEAD])
            self._socket.send_multipart([KIND, BODY_HEADER, body], copy=False)
        else:
            self._socket.send_multipart([KIND, HEAD, body], copy=False)

    def receive(self, body: bytes) -> None:
        _check(self._socket.recv_multipart()[1], body)

    def close(self) -> None:
        self._socket.close(0)
        self._context.term()


class GrpcFloor:
    """A bidirectional stream of raw bytes, read and written by the synchronous API; `apart`: head and body in two."""

    def __init__(self, port: int, *, apart: bool = False) -> None:
        self._apart = apart
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=GRPC_OPTIONS)
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        method: Any = self._channel.stream_stream(METHOD)
        self._replies: Iterator[bytes] = method(iter(self._requests.get, None))

    def send(self, body: bytes) -> None:
        if self._apart:
            self._requests.put(HEAD)
            self._requests.put(b"".join((BODY_HEADER, body)))
        else:
            self._requests.put(b"".join((HEAD, BODY_HEADER, body)))

    def receive(self, body: bytes) -> None:
        _check(next(self._replies), body)

    def close(self) -> None:
        self._requests.put(None)
        for _ in self._replies:
            pass
        self._channel.close()


FLOORS: dict[str, Callable[[int], Floor]] = {
    "tcp": TcpFloor,
    "zmq": ZmqFloor,
    "zmq apart": partial(ZmqFloor, apart=True),
    "grpc": GrpcFloor,
    "grpc apart": partial(GrpcFloor, apart=True),
}


def _serve_tcp() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    _announce(listener.getsockname()[1])

    def serve() -> None:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while length := _read(connection, _LENGTH.size):
                body = _read(connection, _LENGTH.unpack(length)[0])
                connection.sendall(_reply(body))

    threading.Thread(target=serve, daemon=True).start()
    sys.stdin.read()
    listener.close()


def _read(connection: socket.socket, size_bytes: int) -> memoryview:
    """So many bytes; none once the other side has closed."""
    data = memoryview(bytearray(size_bytes))
    at = 0
    while at < size_bytes:
        got = connection.recv_into(data[at:])
        if not got:
            return data[:0]
        at += got
    return data


def _serve_zmq() -> None:
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.set(zmq.LINGER, 0)
    _announce(router.bind_to_random_port("tcp://127.0.0.1"))

    def serve() -> None:
        while True:
            who, *_, last = router.recv_multipart(copy=False)
            if len(last) > len(HEAD):
                router.send_multipart([who.bytes, KIND, _reply(last.buffer)])

    threading.Thread(target=serve, daemon=True).start()
    sys.stdin.read()


def _serve_grpc() -> None:
    def live(requests: Iterator[bytes], _: object) -> Iterator[bytes]:
        for message in requests:
            if len(message) > len(HEAD):
                yield _reply(memoryview(message))

    server = grpc.server(ThreadPoolExecutor(4), options=GRPC_OPTIONS)
    handler: Any = grpc.stream_stream_rpc_method_handler(live)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("floor.Floor", {"Live": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    _announce(port)
    sys.stdin.read()
    server.stop(0.2).wait()


def _announce(port: int) -> None:
    print(port, flush=True)


def _reply(body: memoryview) -> bytes:
    """Says the last byte of the frame, so that it must have been read."""
    return bytes((body[-1],)) + bytes(REPLY_BYTES - 1)


def _check(reply: bytes | memoryview, body: bytes) -> None:
    if len(reply) != REPLY_BYTES or reply[0] != body[-1]:
        raise RuntimeError("this is not the reply to this frame")


if __name__ == "__main__":
    tune()
    {"tcp": _serve_tcp, "zmq": _serve_zmq, "grpc": _serve_grpc}[sys.argv[1]]()
