"""What only the gRPC link and listener can promise: TCP connections of their own, health, and words for every end."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import grpc
import psutil
import pytest
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]

from cloud.listeners.grpc import GrpcListener
from edge.links.base import Connected, Disconnected, LinkEvent, Received, Sent
from edge.links.grpc import GrpcLink
from nearfar.relay import Relay
from protos.wire import envelope
from protos.wire.live import FrameBody, FrameHead
from protos.wire.session import Error, Hello, Lane, Ping, RejectReason, Welcome
from tests.support.agents import HELLO, GrpcSpeaker, frame, port_of
from tests.support.endpoints import ScriptedEndpoint
from tests.support.eventually import eventually
from tests.support.ipv6 import need_ipv6
from tests.support.workers import clock_us

Worker = tuple[ScriptedEndpoint, GrpcListener]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Wire:
    """A link to an address, and what it reported."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.events: list[LinkEvent] = []
        self.link = GrpcLink(name="cable", url=f"grpc://{host}:{port}", clock_us=clock_us)
        self.link.start(HELLO, self.events.append)

    def count(self, kind: type) -> int:
        return sum(isinstance(e, kind) for e in tuple(self.events))

    def wait(self, kind: type, count: int, within_s: float = 5.0) -> None:
        eventually(lambda: self.count(kind) >= count, within_s, f"{count} {kind.__name__} in {self.events}")

    def close(self) -> None:
        self.link.close()


@pytest.fixture
def worker() -> Iterator[Worker]:
    endpoint = ScriptedEndpoint()
    listener = GrpcListener(endpoint, address="127.0.0.1:0", clock_us=clock_us, max_message_bytes=100_000)
    listener.start()
    yield endpoint, listener
    listener.stop()


def outgoing(port: int) -> set[int]:
    """Local ports of this process's established TCP connections to `port`."""
    return {
        c.laddr.port
        for c in psutil.Process().net_connections("tcp")
        if c.raddr and c.raddr.port == port and c.status == psutil.CONN_ESTABLISHED
    }


def test_live_and_bulk_are_two_tcp_connections_and_a_fresh_one_is_a_third(worker: Worker) -> None:
    """F32: channels to one target share a connection unless they are told not to."""
    port = port_of(worker[1].address)
    with closing(Wire(port)) as wire:
        wire.wait(Connected, 2)
        assert len(outgoing(port)) == 2
        wire.link.open_fresh()
        wire.wait(Connected, 3)
        assert len(outgoing(port)) == 3
    eventually(lambda: not outgoing(port), what="the end of every connection")


@pytest.mark.parametrize(("spread_us", "together"), [(100, True), (5000, False), (0, False)])
def test_head_and_body_share_a_message_only_where_the_head_gains_nothing(
    worker: Worker, spread_us: int, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever way they travel, a session gets the head, then the body."""
    endpoint, listener = worker
    endpoint.spread_us = spread_us
    packed: list[int] = []
    pack = envelope.pack_frame

    def counted(head: FrameHead, body: FrameBody) -> bytes:
        packed.append(head.seq)
        return pack(head, body)

    monkeypatch.setattr(envelope, "pack_frame", counted)
    with closing(Wire(port_of(listener.address))) as wire:
        wire.wait(Connected, 2)
        for seq in range(1, 13):
            assert wire.link.send(*frame(seq, b"x" * 30_000)) is Sent.ACCEPTED
            wire.wait(Received, seq)
        (session,) = endpoint.on(Lane.LIVE)
        assert [m.seq for m in session.frames] == [seq for seq in range(1, 13) for _ in range(2)]
        assert [type(m) for m in session.frames] == [FrameHead, FrameBody] * 12
    assert bool(packed) is together


def test_a_link_reaches_a_worker_at_an_ipv6_address() -> None:
    need_ipv6()
    listener = GrpcListener(ScriptedEndpoint(), address="[::1]:0", clock_us=clock_us)
    listener.start()
    try:
        with closing(Wire(port_of(listener.address), "[::1]")) as wire:
            wire.wait(Connected, 2)
    finally:
        listener.stop()


def test_a_name_that_is_none_and_a_port_nobody_serves_are_tried_for_ever() -> None:
    for host, port in (("no-such-host.invalid", 7440), ("127.0.0.1", 1)):
        with closing(Wire(port, host)) as wire:
            driver = wire.link._driver
            eventually(lambda driver=driver: driver.attempts >= 6, 15.0, "three attempts on each lane")  # type: ignore[misc]
            assert wire.link.send(Ping(nonce=1, sent_mono_us=0)) is Sent.DOWN
            assert wire.events == []


def test_a_port_that_accepts_and_never_answers_is_given_up_and_tried_again() -> None:
    """F07"""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mute.settimeout(10.0)
        with closing(Wire(mute.getsockname()[1])) as wire:
            accepted = [mute.accept()[0] for _ in range(4)]  # two lanes, twice
            assert wire.events == []
        for connection in accepted:
            connection.close()


def test_a_blackhole_blocks_neither_send_nor_close_and_a_fresh_connection_ends_it(worker: Worker) -> None:
    """F05, F23"""
    relay = Relay(listen="127.0.0.1:0", to=worker[1].address.removeprefix("grpc://"))
    relay.start()
    try:
        with closing(Wire(port_of(relay.address))) as wire:
            wire.wait(Connected, 2)
            relay.set(state="stall")
            ends = set()
            for seq in range(1, 200):
                begun_s = time.perf_counter()
                ends.add(wire.link.send(*frame(seq, b"x" * 90_000)))
                assert time.perf_counter() - begun_s < 0.5
            assert ends == {Sent.ACCEPTED, Sent.FULL}
            relay.set(state="pass")
            wire.link.open_fresh()
            wire.wait(Connected, 3)
            relay.set(state="stall")
            begun_s = time.perf_counter()
        assert time.perf_counter() - begun_s < 0.6
    finally:
        relay.stop()


def test_a_frozen_worker_keeps_its_connection_until_another_answers(tmp_path: Any) -> None:
    """F04, F05: SIGSTOP leaves TCP up; only what a worker says tells that it is there."""
    code = (
        "import sys, time\n"
        "from cloud.listeners.grpc import GrpcListener\n"
        "from tests.support.endpoints import ScriptedEndpoint\n"
        "made = GrpcListener(ScriptedEndpoint(), address='127.0.0.1:0', clock_us=lambda: time.monotonic_ns() // 1000)\n"
        "made.start(); print(made.address, flush=True); sys.stdin.read(); made.stop()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            with closing(Wire(port_of(process.stdout.readline().strip()))) as wire:
                wire.wait(Connected, 2)
                os.kill(process.pid, signal.SIGSTOP)
                for _ in range(8):
                    wire.link.open_fresh()
                eventually(lambda: wire.link._driver.attempts >= 3, what="attempts beside it")
                assert wire.link.send(Ping(nonce=1, sent_mono_us=0)) is Sent.ACCEPTED
                assert wire.count(Disconnected) == 0
                os.kill(process.pid, signal.SIGCONT)
                wire.link.open_fresh()
                wire.wait(Connected, 3)
                process.kill()
                wire.wait(Disconnected, 2)
        finally:
            process.kill()


def test_a_worker_that_ends_a_stream_with_words_is_quoted(worker: Worker) -> None:
    endpoint, listener = worker
    with closing(Wire(port_of(listener.address))) as wire:
        wire.wait(Connected, 2)
        endpoint.on(Lane.LIVE)[0].peer.close()
        wire.wait(Disconnected, 1)
        (gone,) = [e for e in wire.events if isinstance(e, Disconnected)]
        assert gone.reason == "the worker closed the connection"
        wire.wait(Connected, 3)


def test_bytes_that_are_no_message_are_counted_and_the_connection_lives_on(worker: Worker) -> None:
    endpoint, listener = worker
    with closing(Wire(port_of(listener.address))) as wire:
        wire.wait(Connected, 2)
        peer: Any = endpoint.on(Lane.LIVE)[0].peer
        with peer._changed:
            peer._queue.extend([b"", b"\xff\xff", b"\x12\x7fx", b"\xf8\x07\x01"])
            peer._changed.notify()
        eventually(lambda: wire.link.bad_messages == 4, what="four bad messages counted")
        assert wire.count(Disconnected) == 0


def test_no_file_descriptor_is_left_after_many_lost_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hang_up:
        hang_up.settimeout(10.0)
        with closing(Wire(hang_up.getsockname()[1])):
            hang_up.accept()[0].close()
            before = psutil.Process().num_fds()
            for _ in range(8):
                hang_up.accept()[0].close()
            assert psutil.Process().num_fds() < before + 40


def test_a_lane_that_its_hello_contradicts_is_refused_in_words(worker: Worker) -> None:
    endpoint, listener = worker
    with closing(GrpcSpeaker(listener.address, Lane.BULK)) as gateway:
        gateway.send(HELLO)
        error = gateway.receive()
        assert isinstance(error, Error)
        assert (error.reason, error.retry) == (RejectReason.NOT_ALLOWED, False)
        assert "must agree" in error.text
        assert endpoint.on(Lane.BULK) == endpoint.on(Lane.LIVE) == []
        gateway.send(Hello(agent="gw", run=bytes(16), lane=Lane.BULK))
        assert isinstance(gateway.receive(), Welcome)


def test_a_message_over_the_limit_ends_its_stream_with_words_and_leaves_the_others(worker: Worker) -> None:
    _, listener = worker
    with closing(GrpcSpeaker(listener.address)) as other, closing(GrpcSpeaker(listener.address)) as gateway:
        for one in (other, gateway):
            one.send(HELLO)
            assert isinstance(one.receive(), Welcome)
        for message in frame(1, b"x" * 200_000):
            gateway.send(message)
        with pytest.raises(AssertionError, match="the stream ended"):
            gateway.receive()
        assert gateway.error is not None
        assert "larger than" in str(gateway.error)
        other.send(Ping(nonce=1, sent_mono_us=0))
        other.receive()


def test_a_method_nobody_has_is_answered_and_counted(worker: Worker) -> None:
    _, listener = worker
    with channel_to(listener) as channel:
        wrong: Any = channel.unary_unary("/nearfar.v1.Inference/Infer", None, None)
        with pytest.raises(grpc.RpcError) as caught:
            wrong(b"", timeout=5)
    code: Any = caught.value
    assert code.code() is grpc.StatusCode.UNIMPLEMENTED
    assert listener.refused_messages == 1


def channel_to(listener: GrpcListener) -> grpc.Channel:
    return grpc.insecure_channel(
        listener.address.removeprefix("grpc://"), options=(("grpc.enable_http_proxy", 0),)
    )


def health_of(channel: grpc.Channel, service: str = "") -> int:
    """As any health client asks, by method name and message alone."""
    check: Any = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    return int(check(health_pb2.HealthCheckRequest(service=service), timeout=5).status)


def test_health_is_serving_exactly_while_the_worker_is_ready(worker: Worker) -> None:
    endpoint, listener = worker
    with channel_to(listener) as channel:
        assert health_of(channel) == health_of(channel, envelope.SERVICE) == SERVING
        endpoint.reasons = ["draining"]
        assert health_of(channel) == health_of(channel, envelope.SERVICE) == NOT_SERVING
        endpoint.reasons = []
        assert health_of(channel) == SERVING
        with pytest.raises(grpc.RpcError) as caught:
            health_of(channel, "no.such.Service")
        code: Any = caught.value
        assert code.code() is grpc.StatusCode.NOT_FOUND


def test_who_watches_health_hears_of_each_change_once(worker: Worker) -> None:
    endpoint, listener = worker
    with channel_to(listener) as channel:
        watch: Any = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        seen = watch(health_pb2.HealthCheckRequest(service=""), timeout=20)
        assert next(seen).status == SERVING
        endpoint.reasons = ["model x is not loaded"]
        assert next(seen).status == NOT_SERVING
        endpoint.reasons = []
        assert next(seen).status == SERVING
        seen.cancel()


def test_more_watchers_than_there_are_places_are_refused_and_agents_still_served(worker: Worker) -> None:
    _, listener = worker
    with channel_to(listener) as channel:
        watch: Any = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        watchers = [watch(health_pb2.HealthCheckRequest(service=""), timeout=20) for _ in range(12)]
        refused = 0
        for one in watchers:
            try:
                next(one)
            except grpc.RpcError as error:
                refused += "ask Check instead" in str(error)
        assert refused == 4
        assert health_of(channel) == SERVING
        with closing(Wire(port_of(listener.address))) as wire:
            wire.wait(Connected, 2)
        for one in watchers:
            one.cancel()
