"""What every listener promises the service and its agents, whatever carries the messages: over ZeroMQ and gRPC."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from cloud.listeners.base import Listener
from cloud.listeners.kinds import LISTENERS
from cloud.service import Service
from pipelines.errors import ConfigError
from protos.wire.bulk import Ack
from protos.wire.live import Result
from protos.wire.session import Error, Goodbye, Hello, Lane, Ping, Pong, RejectReason, Welcome
from tests.support.agents import HELLO, agent, frame, greet, port_of
from tests.support.endpoints import BreaksOnce, ScriptedEndpoint
from tests.support.eventually import eventually
from tests.support.ipv6 import need_ipv6
from tests.support.workers import GatedDetector, clock_us, service

KINDS = [kind.name for kind in LISTENERS]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def listener_on(kind: str, endpoint: Any, address: str = "127.0.0.1:0", **options: Any) -> Iterator[Listener]:
    made: Listener = LISTENERS[kind].resolve()(
        endpoint, **({"address": address, "clock_us": clock_us} | options)
    )
    made.start()
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def listening(kind: str, folder: Path, **options: Any) -> Iterator[tuple[Service, Listener, GatedDetector]]:
    """A whole service behind a listener."""
    detector = GatedDetector()
    with service(folder, build=lambda: detector) as (made, _), listener_on(kind, made, **options) as listener:
        try:
            yield made, listener, detector
        finally:
            detector.gate.set()


def test_an_unknown_connection_is_asked_for_a_hello_and_then_served(kind: str, tmp_path: Path) -> None:
    with listening(kind, tmp_path) as (_, listener, _), agent(listener.address) as gateway:
        gateway.send(Ping(nonce=1, sent_mono_us=0))
        assert gateway.until(Error).reason is RejectReason.HELLO_REQUIRED
        gateway.send(HELLO, *frame(1, b"0123456789", codec="raw"))
        gateway.until(Welcome)
        result = gateway.until(Result)
        assert result.detections.boxes.tolist() == [[0, 0, 640, 480]]
        assert gateway.until(Ack).records[0].last == 1


def test_damaged_and_unknown_messages_are_answered_and_keep_the_connection(kind: str, tmp_path: Path) -> None:
    with listening(kind, tmp_path) as (_, listener, _), agent(listener.address) as gateway:
        greet(gateway)
        garbage = gateway.garbage()
        for what in garbage:
            gateway.send_raw(what)
            assert gateway.until(Error).reason is RejectReason.UNKNOWN_KIND
        assert listener.refused_messages == len(garbage) >= 4
        gateway.send(Ping(nonce=9, sent_mono_us=0))
        assert gateway.until(Pong).nonce == 9


def test_an_agent_that_sends_garbage_disturbs_no_other(kind: str, tmp_path: Path) -> None:
    with (
        listening(kind, tmp_path) as (_, listener, _),
        agent(listener.address) as wild,
        agent(listener.address) as gateway,
    ):
        greet(gateway)
        for what in wild.garbage() * 20:
            wild.send_raw(what)
        gateway.send(*frame(1, b"0123456789", codec="raw"))
        assert gateway.until(Result).seq == 1


def test_a_silent_connection_is_forgotten_and_its_agent_served_anew(kind: str, tmp_path: Path) -> None:
    slept_us = 0
    with listening(kind, tmp_path, clock_us=lambda: clock_us() + slept_us) as (made, listener, _):
        with agent(listener.address) as gateway:
            greet(gateway)
            slept_us = 60_000_000
            eventually(lambda: made.sessions == 0, what="the silent session's end")
        with agent(listener.address) as again:
            greet(again)


def test_a_connection_that_is_gone_ends_its_session_though_nothing_is_sent_to_it(
    kind: str, tmp_path: Path
) -> None:
    with listening(kind, tmp_path, silent_us=3_600_000_000) as (made, listener, _):
        with agent(listener.address) as gateway, agent(listener.address) as other:
            greet(gateway)
            greet(other, replace(HELLO, agent="other"))
            assert made.sessions == 2
        eventually(lambda: made.sessions == 0, what="the end of both sessions")


def test_a_connection_that_is_gone_ends_its_session_while_its_frame_runs(kind: str, tmp_path: Path) -> None:
    with listening(kind, tmp_path) as (made, listener, detector):
        with agent(listener.address) as gateway:
            detector.gate.clear()
            gateway.send(HELLO, *frame(1, b"0123456789", codec="raw"))
            gateway.until(Welcome)
            eventually(detector.running.is_set, what="a run")
        eventually(lambda: made.sessions == 0, what="the lost session's end")
        detector.gate.set()


def test_a_goodbye_ends_the_session_at_once(kind: str, tmp_path: Path) -> None:
    with listening(kind, tmp_path) as (made, listener, _), agent(listener.address) as gateway:
        greet(gateway)
        assert made.sessions == 1
        gateway.send(Goodbye(reason="done"))
        eventually(lambda: made.sessions == 0, what="the session's end")


def test_a_message_over_the_limit_never_reaches_the_service(kind: str, tmp_path: Path) -> None:
    with listening(kind, tmp_path, max_message_bytes=10_000) as (made, listener, _):
        with agent(listener.address) as gateway:
            greet(gateway)
            gateway.send(*frame(1, b"x" * 20_000, codec="raw"))
        with agent(listener.address) as other:
            other.send(Hello(agent="other", run=bytes(16), lane=Lane.LIVE, streams=HELLO.streams))
            other.until(Welcome)
            other.send(*frame(1, b"x" * 10_000, codec="raw"))
            other.until(Result)
        assert made.metrics.value("nearfar_worker_frames_total", outcome="answered") == 1


def test_one_connection_too_many_is_counted_and_disturbs_no_other(kind: str, tmp_path: Path) -> None:
    with listening(kind, tmp_path, max_peers=2) as (made, listener, _), agent(listener.address) as gateway:
        greet(gateway)
        with agent(listener.address) as second:
            second.send(Ping(nonce=1, sent_mono_us=0))
            second.until(Error)  # it has its place before the next one asks for one
            with agent(listener.address) as third:
                third.send(Ping(nonce=1, sent_mono_us=0))
                eventually(lambda: listener.refused_messages >= 1, what="the third to be counted")
        gateway.send(*frame(1, b"0123456789", codec="raw"))
        gateway.until(Result)
        assert made.sessions == 1


def test_a_peer_that_takes_nothing_is_told_full_and_delays_nobody(kind: str) -> None:
    endpoint = ScriptedEndpoint()
    with (
        listener_on(kind, endpoint, max_queued=4) as listener,
        agent(listener.address) as sleeper,
        agent(listener.address) as gateway,
    ):
        sleeper.send(HELLO)
        (sleeping,) = eventually(lambda: endpoint.on(Lane.LIVE), what="the sleeper's session")
        peer = sleeping.peer
        words = Error(reason=RejectReason.FAILED, text="x" * 500_000)
        eventually(lambda: not peer.send(words), 30.0, "a full queue")
        gateway.send(HELLO)
        gateway.until(Welcome)


def test_what_was_queued_is_handed_over_before_a_listener_stops(kind: str) -> None:
    endpoint = ScriptedEndpoint()
    with listener_on(kind, endpoint) as listener, agent(listener.address) as gateway:
        gateway.send(HELLO)
        gateway.until(Welcome)
        for nonce in range(50):
            assert endpoint.sessions[0].peer.send(Ping(nonce=nonce, sent_mono_us=0))
        listener.stop()
        assert [gateway.until(Ping).nonce for _ in range(50)] == list(range(50))
    assert endpoint.sessions[0].ended


def test_strangers_who_do_not_speak_the_protocol_are_survived(kind: str, tmp_path: Path) -> None:
    words = (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", b"\x00" * 64, b"\xff" * 4096, b"SSH-2.0-x\r\n", b"")
    with listening(kind, tmp_path) as (_, listener, _):
        strangers = [
            socket.create_connection(("127.0.0.1", port_of(listener.address)), timeout=5) for _ in words
        ]
        try:
            for stranger, said in zip(strangers, words, strict=True):
                stranger.sendall(said)
            with agent(listener.address) as gateway:
                greet(gateway)
        finally:
            for stranger in strangers:
                stranger.close()


def test_a_thousand_connections_that_say_nothing_leave_room_for_an_agent(kind: str, tmp_path: Path) -> None:
    with listening(kind, tmp_path) as (_, listener, _):
        before = threading.active_count()
        idle: list[socket.socket] = []
        try:
            for _ in range(1000):
                idle.append(socket.create_connection(("127.0.0.1", port_of(listener.address)), timeout=5))
            with agent(listener.address) as gateway:
                greet(gateway)
            assert threading.active_count() < before + 20
        finally:
            for one in idle:
                one.close()


def test_an_address_in_use_is_named_with_the_systems_words(kind: str) -> None:
    endpoint = ScriptedEndpoint()
    with listener_on(kind, endpoint) as listener:
        taken = f"127.0.0.1:{port_of(listener.address)}"
        second: Listener = LISTENERS[kind].resolve()(endpoint, address=taken, clock_us=clock_us)
        with pytest.raises(ConfigError) as caught:
            second.start()
        (problem,) = caught.value.problems
        assert problem.path == f"listen.{kind}.address"
        words = f"{taken} cannot be bound: Address already in use by process {os.getpid()} ("
        assert str(problem).count("already in use") == 1
        assert words in str(problem)
        assert str(problem).endswith("; end that, or write another port")
        second.stop()


def test_a_stopped_listener_leaves_no_thread_no_socket_and_its_port_free(kind: str) -> None:
    endpoint = ScriptedEndpoint()
    threads = set(threading.enumerate())
    with listener_on(kind, endpoint) as listener, agent(listener.address) as gateway:
        gateway.send(HELLO)
        gateway.until(Welcome)
        port = port_of(listener.address)
        listener.stop()
        listener.stop()
        eventually(
            lambda: not [t for t in set(threading.enumerate()) - threads if t.name.startswith("nearfar")],
            what="the end of its threads",
        )
        listens = [c.laddr.port for c in psutil.Process().net_connections("tcp") if c.status == "LISTEN"]
        assert port not in listens
    with listener_on(kind, endpoint, f"127.0.0.1:{port}") as again:
        assert port_of(again.address) == port


def test_an_ipv6_address_is_served_and_named_in_brackets(kind: str) -> None:
    need_ipv6()
    with listener_on(kind, ScriptedEndpoint(), "[::1]:0") as listener:
        assert "//[::1]:" in listener.address
        with agent(listener.address) as gateway:
            gateway.send(HELLO)
            gateway.until(Welcome)


def test_a_fault_nobody_foresaw_costs_its_connection_at_most_and_is_counted(kind: str) -> None:
    with listener_on(kind, BreaksOnce()) as listener:
        with agent(listener.address) as unlucky:
            unlucky.send(HELLO)
            eventually(lambda: listener.faults == 1, what="a counted fault")
        with agent(listener.address) as gateway:
            greet(gateway)
        assert listener.trouble == []


def test_a_stop_that_may_take_no_time_names_what_it_left_behind(kind: str) -> None:
    endpoint = ScriptedEndpoint()
    with listener_on(kind, endpoint) as listener, agent(listener.address) as gateway:
        endpoint.reading.clear()  # its session is inside a call that does not come back
        gateway.send(HELLO)
        eventually(lambda: endpoint.sessions, what="a session")
        listener.stop(0.05)
        assert [name for name in listener.left_behind if name.startswith("nearfar-")] != []
        endpoint.reading.set()
        listener.stop()
        assert listener.left_behind == []
