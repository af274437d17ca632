"""Ours: an agent's link, and behind it a whole worker whose codec and detector cost nothing."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.runtime import monotonic_us
from protos.wire.session import Ping
from tests.bench.link_client import LinkClient
from tests.bench.null_worker import serving
from tests.bench.peers.base import HOST, in_turn

_PING_EVERY_S = 2.0


@contextmanager
def _serving(kind: str) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder, serving(kind, Path(folder)) as (address, _):
        yield int(address.rpartition(":")[2])


@contextmanager
def serving_zmq() -> Iterator[int]:
    with _serving("zmq") as port:
        yield port


@contextmanager
def serving_grpc() -> Iterator[int]:
    with _serving("grpc") as port:
        yield port


class _Client(LinkClient):
    """Pings as an agent does: a worker gives up one that is silent, as ours is while others have their turn."""

    def __init__(self, kind: str, address: str) -> None:
        super().__init__(kind, address)
        self._closed = threading.Event()
        self._pinging = threading.Thread(target=self._ping, daemon=True)
        self._pinging.start()

    def closed(self, body: bytes, *, frames: int) -> list[float]:
        return in_turn(self.call, body, frames)

    def close(self) -> None:
        self._closed.set()
        self._pinging.join()
        super().close()

    def _ping(self) -> None:
        nonce = 0
        while not self._closed.wait(_PING_EVERY_S):
            nonce += 1
            self._link.send(Ping(nonce=nonce, sent_mono_us=monotonic_us()))


class ZmqClient(_Client):
    def __init__(self, port: int) -> None:
        super().__init__("zmq", f"{HOST}:{port}")


class GrpcClient(_Client):
    def __init__(self, port: int) -> None:
        super().__init__("grpc", f"{HOST}:{port}")
