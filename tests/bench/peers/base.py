"""What a peer is to this benchmark: a server on loopback and a client that has frames answered.

This module and those of the peers are imported in environments that hold nothing but the peer itself: besides its
package they use the standard library and this file only.
"""

import socket
import struct
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

T = TypeVar("T")

HOST = "127.0.0.1"
REPLY_BYTES = 200
_REPLY = struct.Struct("<QB")

Serving = Callable[[], AbstractContextManager[int]]
"""A server that is on its way up when it gives its port and answers until the context ends."""


class Client(Protocol):
    """One that sends frames and has each answered by its own result; RuntimeError when it is not."""

    def closed(self, body: bytes, *, frames: int) -> list[float]:
        """µs each of so many frames took, from the payload in hand until its result, one after another."""
        ...

    def close(self) -> None: ...


class WindowClient(Client, Protocol):
    """One that can have several frames on their way."""

    def flow(self, body: bytes, *, frames: int, window: int) -> float:
        """Frames per second with `window` on their way at any time."""
        ...


def in_turn(call: Callable[[bytes], float], body: bytes, frames: int) -> list[float]:
    """The round trips of a client that only knows one frame at a time."""
    return [call(body) for _ in range(frames)]


def result(seq: int, body: memoryview | bytes) -> bytes:
    """What a server returns for a frame: its number and its last byte, so that it must have been read."""
    return _REPLY.pack(seq, body[-1]).ljust(REPLY_BYTES, b"r")


def check(reply: bytes | memoryview, seq: int, body: bytes) -> None:
    """RuntimeError unless `reply` is the result of this very frame."""
    if len(reply) != REPLY_BYTES or _REPLY.unpack_from(reply) != (seq, body[-1]):
        raise RuntimeError(f"frame {seq} was answered by something else")


def free_port() -> int:
    """A port of loopback that nobody had a moment ago, for servers that cannot say which one they took."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def since_us(begun_ns: int) -> float:
    return (time.perf_counter_ns() - begun_ns) / 1000


def per_second(frames: int, begun_ns: int) -> float:
    return frames * 1e9 / (time.perf_counter_ns() - begun_ns)


def patiently(attempt: Callable[[], T], *, within_s: float = 30.0) -> T:
    """What `attempt` returns once it no longer raises; its last error when that takes longer than `within_s`."""
    until = time.monotonic() + within_s
    while True:
        try:
            return attempt()
        except Exception:
            if time.monotonic() > until:
                raise
        time.sleep(0.1)
