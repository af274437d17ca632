"""What only the gRPC link can promise: TCP connections of its own, and words for every end."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import grpc
import psutil
import pytest

from cloud.listeners.grpc.listener import GrpcListener
from edge.links.base import Connected, Disconnected, Sent
from nearfar.relay import Relay
from pipelines.runtime import monotonic_us
from protos.wire import envelope
from protos.wire.session import Lane, Ping
from tests.support.agents import frame, port_of
from tests.support.endpoints import ScriptedEndpoint
from tests.support.eventually import eventually
from tests.support.ipv6 import need_ipv6
from tests.support.wires import GrpcWorker, Wire, grpc_worker


@pytest.fixture
def worker() -> Iterator[GrpcWorker]:
    with grpc_worker() as made:
        yield made


def tried(wire: Wire, times: int) -> bool:
    return wire.link.attempts >= times


class Babbler(grpc.GenericRpcHandler):
    """A server that says `words` on every stream, whatever it is asked, and then listens."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self._words = words

    def service(self, _: object) -> Any:
        return grpc.stream_stream_rpc_method_handler(self._talk)

    def _talk(self, requests: Iterator[bytes], _: object) -> Iterator[bytes]:
        yield from self._words
        for _ in requests:
            pass


@contextmanager
def babbling(*words: bytes) -> Iterator[int]:
    """Its port."""
    with ThreadPoolExecutor(4) as pool:
        server: Any = grpc.server(pool, handlers=[Babbler(words)])
        port = int(server.add_insecure_port("127.0.0.1:0"))
        server.start()
        yield port
        server.stop(0).wait()


def outgoing(port: int) -> set[int]:
    """Local ports of this process's established TCP connections to `port`."""
    return {
        c.laddr.port
        for c in psutil.Process().net_connections("tcp")
        if c.raddr and c.raddr.port == port and c.status == psutil.CONN_ESTABLISHED
    }


def test_live_and_bulk_are_two_tcp_connections_and_a_fresh_one_is_a_third(worker: GrpcWorker) -> None:
    """F32: channels to one target share a connection unless they are told not to."""
    port = port_of(worker[1].address)
    with closing(Wire("grpc", port)) as wire:
        wire.wait(Connected, 2)
        assert len(outgoing(port)) == 2
        wire.link.open_fresh()
        wire.wait(Connected, 3)
        assert len(outgoing(port)) == 3
    eventually(lambda: not outgoing(port), what="the end of every connection")


def test_a_link_reaches_a_worker_at_an_ipv6_address() -> None:
    need_ipv6()
    listener = GrpcListener(ScriptedEndpoint(), address="[::1]:0", clock_us=monotonic_us)
    listener.start()
    try:
        with closing(Wire("grpc", port_of(listener.address), "[::1]")) as wire:
            wire.wait(Connected, 2)
    finally:
        listener.stop()


def test_a_name_that_is_none_and_a_port_nobody_serves_are_tried_for_ever() -> None:
    for host, port in (("no-such-host.invalid", 7440), ("127.0.0.1", 1)):
        with closing(Wire("grpc", port, host)) as wire:
            eventually(partial(tried, wire, 6), 15.0, "three attempts on each lane")
            assert wire.link.send(Ping(nonce=1, sent_mono_us=0)) is Sent.DOWN
            assert wire.events == []


def test_a_port_that_accepts_and_never_answers_is_given_up_and_tried_again() -> None:
    """F07"""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mute.settimeout(10.0)
        with closing(Wire("grpc", mute.getsockname()[1])) as wire:
            accepted = [mute.accept()[0] for _ in range(4)]  # two lanes, twice
            assert wire.events == []
        for connection in accepted:
            connection.close()


def test_a_blackhole_blocks_neither_send_nor_close_and_a_fresh_connection_ends_it(worker: GrpcWorker) -> None:
    """F05, F23"""
    relay = Relay(listen="127.0.0.1:0", to=worker[1].address.removeprefix("grpc://"))
    relay.start()
    try:
        with closing(Wire("grpc", port_of(relay.address))) as wire:
            wire.wait(Connected, 2)
            relay.set(state="stall")
            ends = set()
            for seq in range(1, 200):
                begun_s = time.perf_counter()
                ends.add(wire.link.send(*frame(seq, b"x" * 90_000)))
                assert (
                    time.perf_counter() - begun_s < 2.0
                )  # a send that blocks does so until the relay passes
            assert ends == {Sent.ACCEPTED, Sent.FULL}
            relay.set(state="pass")
            wire.link.open_fresh()
            wire.wait(Connected, 3)
            relay.set(state="stall")
            begun_s = time.perf_counter()
        assert time.perf_counter() - begun_s < 2.0
    finally:
        relay.stop()


def test_a_frozen_worker_keeps_its_connection_until_another_answers(tmp_path: Any) -> None:
    """F04, F05: SIGSTOP leaves TCP up; only what a worker says tells that it is there."""
    code = (
        "import sys, time\n"
        "from cloud.listeners.grpc.listener import GrpcListener\n"
        "from tests.support.endpoints import ScriptedEndpoint\n"
        "made = GrpcListener(ScriptedEndpoint(), address='127.0.0.1:0', clock_us=lambda: time.monotonic_ns() // 1000)\n"
        "made.start(); print(made.address, flush=True); sys.stdin.read(); made.stop()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            with closing(Wire("grpc", port_of(process.stdout.readline().strip()))) as wire:
                wire.wait(Connected, 2)
                os.kill(process.pid, signal.SIGSTOP)
                for _ in range(8):
                    wire.link.open_fresh()
                eventually(lambda: wire.link.attempts >= 3, what="attempts beside it")
                assert wire.link.send(Ping(nonce=1, sent_mono_us=0)) is Sent.ACCEPTED
                assert wire.count(Disconnected) == 0
                os.kill(process.pid, signal.SIGCONT)
                wire.link.open_fresh()
                wire.wait(Connected, 3)
                process.kill()
                wire.wait(Disconnected, 2)
        finally:
            process.kill()


def test_a_worker_that_ends_a_stream_with_words_is_quoted(worker: GrpcWorker) -> None:
    endpoint, listener = worker
    with closing(Wire("grpc", port_of(listener.address))) as wire:
        wire.wait(Connected, 2)
        endpoint.on(Lane.LIVE)[0].peer.close()
        wire.wait(Disconnected, 1)
        (gone,) = [e for e in wire.events if isinstance(e, Disconnected)]
        assert gone.reason == "the worker closed the connection"
        wire.wait(Connected, 3)


def test_bytes_that_are_no_message_are_counted_and_the_connection_lives_on() -> None:
    with (
        babbling(b"", b"\xff\xff", b"\x12\x7fx", b"\xf8\x07\x01") as port,
        closing(Wire("grpc", port)) as wire,
    ):
        eventually(lambda: wire.link.bad_messages == 8, what="four bad messages on each lane")
        assert wire.link.attempts == 2
        assert wire.events == []


def test_no_file_descriptor_is_left_after_many_lost_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hang_up:
        hang_up.settimeout(10.0)
        with closing(Wire("grpc", hang_up.getsockname()[1])):
            hang_up.accept()[0].close()
            before = psutil.Process().num_fds()
            for _ in range(8):
                hang_up.accept()[0].close()
            assert psutil.Process().num_fds() < before + 40


def test_a_reading_thread_that_breaks_ends_its_connection_in_words_and_the_link_makes_another(
    worker: GrpcWorker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread that ended without a word would leave its lane waiting for ever."""
    with closing(Wire("grpc", port_of(worker[1].address))) as wire:
        wire.wait(Connected, 2)

        def broken(*_: object, **__: object) -> None:
            raise ZeroDivisionError("a fault of ours")

        with monkeypatch.context() as patch:
            patch.setattr(envelope, "unpack_to_agent", broken)
            wire.link.send(Ping(nonce=1, sent_mono_us=0))
            wire.wait(Disconnected, 1)
        (gone,) = [e for e in wire.events if isinstance(e, Disconnected)]
        assert gone.reason == "ZeroDivisionError: a fault of ours"
        assert "cannot be read any more" in caplog.text
        wire.wait(Connected, 3)


def test_grpc_keeps_its_own_log_to_itself_only_once_a_link_is_made() -> None:
    """Importing a module changes nothing for whoever imports it."""
    code = (
        "import os; from edge.links.grpc import GrpcLink; before = os.environ.get('GRPC_VERBOSITY')\n"
        "GrpcLink(name='x', url='grpc://127.0.0.1:1', clock_us=lambda: 0).close()\n"
        "print(before, os.environ['GRPC_VERBOSITY'])"
    )
    environment = {key: value for key, value in os.environ.items() if key != "GRPC_VERBOSITY"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout.split() == [b"None", b"NONE"]
