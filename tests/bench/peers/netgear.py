"""NetGear of vidgear: REQ/REP, bidirectional, raw pixels.

Its receiver answers from a thread of its own before the application has seen the frame, with what the application
returned for an earlier one. The result of this very frame therefore comes with the reply to a later `send`: `Client`
sends one-byte frames after it until it has come, `ReplyClient` is content with any reply and is no answer to a frame.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from vidgear.gears import NetGear

from tests.bench.peers.base import HOST, REPLY_BYTES, free_port, in_turn, since_us

_FILL = "r" * (REPLY_BYTES - 20)  # the rest is its JSON, number and byte
_NUDGE = np.zeros(1, np.uint8)
_NUDGES_AT_MOST = 10_000


def _gear(port: int, *, receives: bool) -> Any:
    return NetGear(
        address=HOST,
        port=str(port),
        protocol="tcp",
        pattern=1,
        receive_mode=receives,
        jpeg_compression=False,
        bidirectional_mode=True,
        request_timeout=30,
        max_retries=10,
    )


@contextmanager
def serving() -> Iterator[int]:
    port = free_port()
    gear = _gear(port, receives=True)

    def serve() -> None:
        returned: list[Any] | None = None
        while (received := gear.recv(return_data=returned)) is not None:
            seq, frame = received
            if seq is not None:  # a nudge has no number, and what is returned stays
                returned = [seq, int(frame[-1]), _FILL]

    threading.Thread(target=serve, daemon=True).start()
    yield port


class ReplyClient:
    """Waits for a reply to the frame, whatever it says."""

    def __init__(self, port: int) -> None:
        self._gear = _gear(port, receives=False)
        self._seq = 0

    def closed(self, body: bytes, *, frames: int) -> list[float]:
        return in_turn(self._call, body, frames)

    def close(self) -> None:
        self._gear.close()

    def _call(self, body: bytes) -> float:
        self._seq += 1
        begun_ns = time.perf_counter_ns()
        self._gear.send(np.frombuffer(body, np.uint8), message=self._seq)
        return since_us(begun_ns)


class Client(ReplyClient):
    """Waits for the result of the frame."""

    def _call(self, body: bytes) -> float:
        self._seq += 1
        begun_ns = time.perf_counter_ns()
        returned = self._gear.send(np.frombuffer(body, np.uint8), message=self._seq)
        for _ in range(_NUDGES_AT_MOST):
            if returned is not None and returned[0] == self._seq:
                took_us = since_us(begun_ns)
                if returned[1] != body[-1]:
                    raise RuntimeError(f"frame {self._seq} was answered by something else")
                return took_us
            returned = self._gear.send(_NUDGE)
        raise RuntimeError(f"frame {self._seq} was not answered")
