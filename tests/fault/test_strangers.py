"""Connections that say nothing, or half a greeting, change nothing for the agents of a worker."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from cloud.listeners.base import Listener
from cloud.listeners.grpc import listener as grpc_listener
from cloud.listeners.kinds import LISTENERS
from cloud.listeners.zmq import router as zmq_router
from cloud.service import Service
from protos.wire.live import Result
from protos.wire.session import Welcome
from tests.support.agents import HELLO, Agent, agent, frame, port_of
from tests.support.eventually import eventually
from tests.support.workers import clock_us, service

pytestmark = pytest.mark.alone

STRANGERS = 200
UNNOTICED_S = 1.0
"""A frame takes milliseconds; one held up by a stranger would wait for the end of its handshake."""
GROWTH_BYTES = 64 << 20
HALF: dict[str, tuple[bytes, ...]] = {
    # nothing; half a ZMTP signature; a whole one; a signature and half a NULL greeting
    "zmq": (
        b"",
        b"\xff\x00\x00\x00",
        b"\xff" + bytes(8) + b"\x7f",
        b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(10),
    ),
    # nothing; half a connection preface; a whole one; a preface and half a SETTINGS frame
    "grpc": (
        b"",
        b"PRI * HTTP/2.0\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x12\x04\x00",
    ),
}


@contextmanager
def listening(kind: str, folder: Path) -> Iterator[tuple[Service, Listener]]:
    with service(folder) as (made, _):
        listener: Listener = LISTENERS[kind].resolve()(made, address="127.0.0.1:0", clock_us=clock_us)
        listener.start()
        try:
            yield made, listener
        finally:
            listener.stop()


@contextmanager
def strangers(port: int, words: tuple[bytes, ...]) -> Iterator[list[socket.socket]]:
    """200 connections, each after saying one of `words`."""
    with contextlib.ExitStack() as stack:
        out = []
        for number in range(STRANGERS):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            one.sendall(words[number % len(words)])
            out.append(one)
        yield out


def taken(port: int) -> int:
    """Connections that this process holds a descriptor for on the side that listens."""
    return sum(
        c.laddr.port == port and c.status != psutil.CONN_LISTEN
        for c in psutil.Process().net_connections("tcp")
    )


def slowest_s(gateway: Agent, first: int, frames: int = 30) -> float:
    """Each frame answered by a result, one after the other."""
    slowest = 0.0
    for seq in range(first, first + frames):
        began_s = time.monotonic()
        gateway.send(*frame(seq, b"0123456789", codec="raw"))
        assert gateway.until(Result).seq == seq
        slowest = max(slowest, time.monotonic() - began_s)
    return slowest


@pytest.fixture(params=[kind.name for kind in LISTENERS])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for module in (zmq_router, grpc_listener):
        monkeypatch.setattr(module, "_HANDSHAKE_MS", 2000)
    return str(request.param)


def test_half_open_connections_of_strangers_change_nothing_for_an_agent(kind: str, tmp_path: Path) -> None:
    with listening(kind, tmp_path) as (made, listener), agent(listener.address) as gateway:
        port = port_of(listener.address)
        gateway.send(HELLO)
        gateway.until(Welcome)
        slowest_s(gateway, 1)
        eventually(lambda: taken(port) >= 1, what="the agent's own connection")
        threads, own, memory = threading.active_count(), taken(port), psutil.Process().memory_info().rss
        with strangers(port, HALF[kind]):
            eventually(lambda: taken(port) > own + STRANGERS // 2, what="the strangers let in")
            assert slowest_s(gateway, 101) < UNNOTICED_S
            with agent(listener.address) as late:
                late.send(HELLO)
                late.until(Welcome)
            assert threading.active_count() <= threads + 20
            assert psutil.Process().memory_info().rss < memory + GROWTH_BYTES
            assert made.sessions <= 2
            eventually(lambda: taken(port) <= own + 1, 30.0, "descriptors given back while strangers hold on")
            assert slowest_s(gateway, 201) < UNNOTICED_S
        assert listener.faults == 0
        assert listener.trouble == []


def test_strangers_who_hang_up_give_their_descriptors_back_at_once(kind: str, tmp_path: Path) -> None:
    with listening(kind, tmp_path) as (_, listener), agent(listener.address) as gateway:
        port = port_of(listener.address)
        gateway.send(HELLO)
        gateway.until(Welcome)
        own = taken(port)
        for _ in range(3):
            with strangers(port, HALF[kind]):
                pass
        eventually(lambda: taken(port) <= own, what="descriptors given back")
        assert slowest_s(gateway, 1) < UNNOTICED_S
