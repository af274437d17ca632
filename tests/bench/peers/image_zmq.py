"""imagezmq as its users run it: REQ/REP, an encoded picture with its name there, the hub's reply back.

`send_jpg` moves the bytes it is given and `recv_jpg` hands them out without a copy: nothing is encoded or decoded.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import imagezmq

from tests.bench.peers.base import HOST, check, free_port, in_turn, result, since_us


@contextmanager
def serving() -> Iterator[int]:
    port = free_port()
    hub = imagezmq.ImageHub(open_port=f"tcp://{HOST}:{port}")

    def serve() -> None:
        while True:
            name, body = hub.recv_jpg()
            hub.send_reply(result(int(name), body.buffer))

    threading.Thread(target=serve, daemon=True).start()
    yield port


class Client:
    """One frame at a time: a REQ socket may not send again before it has its reply."""

    def __init__(self, port: int) -> None:
        self._sender = imagezmq.ImageSender(connect_to=f"tcp://{HOST}:{port}")
        self._sender.zmq_socket.linger = 0
        self._seq = 0

    def closed(self, body: bytes, *, frames: int) -> list[float]:
        return in_turn(self._call, body, frames)

    def close(self) -> None:
        self._sender.close()

    def _call(self, body: bytes) -> float:
        self._seq += 1
        begun_ns = time.perf_counter_ns()
        reply = self._sender.send_jpg(str(self._seq), body)
        took_us = since_us(begun_ns)
        check(reply, self._seq, body)
        return took_us
