"""What a listener behind somebody else's server promises the service and its agents: what our own do, bar the
socket."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cloud.listeners.grpc.streams import StreamListener
from cloud.service import Service
from protos.wire.bulk import Ack
from protos.wire.live import Result
from protos.wire.session import Error, Goodbye, Hello, Lane, Ping, Pong, RejectReason, Welcome
from tests.support.agents import HELLO, GrpcSpeaker, agent, frame, greet
from tests.support.endpoints import BreaksOnce, ScriptedEndpoint
from tests.support.eventually import eventually
from tests.support.hosted import hosted
from tests.support.workers import GatedDetector, clock_us, service


@contextmanager
def listening(folder: Path, **options: Any) -> Iterator[tuple[Service, str, StreamListener, GatedDetector]]:
    detector = GatedDetector()
    with service(folder, build=lambda: detector) as (made, _), hosted(made, **options) as (address, listener):
        try:
            yield made, address, listener, detector
        finally:
            detector.gate.set()


def test_an_unknown_stream_is_asked_for_a_hello_and_then_served(tmp_path: Path) -> None:
    with listening(tmp_path) as (_, address, _, _), agent(address) as gateway:
        gateway.send(Ping(nonce=1, sent_mono_us=0))
        assert gateway.until(Error).reason is RejectReason.HELLO_REQUIRED
        gateway.send(HELLO, *frame(1, b"0123456789", codec="raw"))
        gateway.until(Welcome)
        assert gateway.until(Result).detections.boxes.tolist() == [[0, 0, 640, 480]]
        assert gateway.until(Ack).records[0].last == 1


def test_damaged_and_unknown_messages_are_answered_and_keep_the_stream(tmp_path: Path) -> None:
    with listening(tmp_path) as (_, address, listener, _), agent(address) as gateway:
        greet(gateway)
        garbage = gateway.garbage()
        for what in garbage:
            gateway.send_raw(what)
            assert gateway.until(Error).reason is RejectReason.UNKNOWN_KIND
        assert listener.refused_messages == len(garbage) >= 4
        gateway.send(Ping(nonce=9, sent_mono_us=0))
        assert gateway.until(Pong).nonce == 9


def test_a_lane_that_its_hello_contradicts_is_refused_in_words(tmp_path: Path) -> None:
    with listening(tmp_path) as (_, address, _, _):
        gateway = GrpcSpeaker(address, Lane.BULK)
        try:
            gateway.send(HELLO)
            error = gateway.receive()
            assert isinstance(error, Error)
            assert "must agree" in error.text
        finally:
            gateway.close()


@pytest.mark.parametrize("how", ["silent", "gone", "goodbye"])
def test_a_stream_that_is_over_ends_its_session(how: str, tmp_path: Path) -> None:
    silent_us = 50_000 if how == "silent" else 15_000_000
    with listening(tmp_path, silent_us=silent_us) as (made, address, listener, _), agent(address) as gateway:
        greet(gateway)
        assert made.sessions == 1
        if how == "gone":
            gateway.close()
        elif how == "goodbye":
            gateway.send(Goodbye(reason="done"))
        eventually(lambda: made.sessions == listener.streams == 0, what="the session's end")


def test_a_message_over_the_limit_ends_its_stream_with_words_and_leaves_the_others(tmp_path: Path) -> None:
    with (
        listening(tmp_path, max_message_bytes=10_000) as (made, address, listener, _),
        agent(address) as other,
        agent(address) as gateway,
    ):
        greet(gateway)
        gateway.send(*frame(1, b"x" * 20_000, codec="raw"))
        assert "10000" in gateway.until(Error).text
        other.send(Hello(agent="other", run=bytes(16), lane=Lane.LIVE, streams=HELLO.streams))
        other.until(Welcome)
        other.send(*frame(1, b"x" * 10_000, codec="raw"))
        other.until(Result)
        assert listener.refused_messages == 1
        assert made.metrics.value("nearfar_worker_frames_total", outcome="answered") == 1


def test_one_stream_too_many_is_told_to_come_again_and_counted(tmp_path: Path) -> None:
    with (
        listening(tmp_path, max_peers=1) as (_, address, listener, _),
        agent(address) as gateway,
    ):
        greet(gateway)
        with agent(address) as second:
            second.send(HELLO)
            error = second.until(Error)
        assert (error.reason, error.retry) == (RejectReason.DRAINING, True)
        assert listener.refused_messages == 1
        gateway.send(*frame(1, b"0123456789", codec="raw"))
        gateway.until(Result)


def test_a_peer_that_takes_nothing_is_told_full_and_delays_nobody() -> None:
    endpoint = ScriptedEndpoint()
    with hosted(endpoint, max_queued=4) as (address, _), agent(address) as sleeper, agent(address) as gateway:
        sleeper.send(HELLO)
        (sleeping,) = eventually(lambda: endpoint.on(Lane.LIVE), what="the sleeper's session")
        words = Error(reason=RejectReason.FAILED, text="x" * 500_000)
        eventually(lambda: not sleeping.peer.send(words), 10.0, "a full queue")
        greet(gateway)


def test_what_was_queued_is_handed_over_before_a_listener_stops() -> None:
    endpoint = ScriptedEndpoint()
    with hosted(endpoint) as (address, listener), agent(address) as gateway:
        greet(gateway)
        for nonce in range(50):
            assert endpoint.sessions[0].peer.send(Ping(nonce=nonce, sent_mono_us=0))
        listener.stop()
        assert [gateway.until(Ping).nonce for _ in range(50)] == list(range(50))
        assert endpoint.sessions[0].ended
        with agent(address) as late:
            late.send(HELLO)
            assert late.until(Error).reason is RejectReason.DRAINING


def test_a_fault_nobody_foresaw_costs_its_stream_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(
        logging.CRITICAL, "cloud.listeners.grpc.streams"
    )  # a kept traceback keeps the server alive

    with hosted(BreaksOnce()) as (address, listener):
        with agent(address) as unlucky:
            unlucky.send(HELLO)
            eventually(lambda: listener.faults == 1, what="a counted fault")
        with agent(address) as gateway:
            greet(gateway)


class Clock:
    """The worker's clock, which jumps as it is told; `looks` counts who asked."""

    def __init__(self) -> None:
        self.ahead_us = 0
        self.looks = 0

    def __call__(self) -> int:
        self.looks += 1
        return clock_us() + self.ahead_us

    def jump(self, by_us: int) -> None:
        """And wait until the listener has looked at it."""
        self.ahead_us += by_us
        upto = self.looks + 3  # two may have been asked for before
        eventually(lambda: self.looks >= upto, what="a look at the clock")


@pytest.mark.parametrize("over_age", [False, True])
def test_an_old_stream_ends_after_the_result_of_what_was_in_work_unless_that_takes_too_long(
    tmp_path: Path, *, over_age: bool
) -> None:
    clock = Clock()
    with (
        listening(tmp_path, max_age_us=1_000_000, clock_us=clock) as (
            made,
            address,
            listener,
            detector,
        ),
        agent(address) as gateway,
    ):
        detector.gate.clear()
        gateway.send(HELLO, *frame(1, b"0123456789", codec="raw"))
        gateway.until(Welcome)
        eventually(detector.running.is_set, what="a run")
        clock.jump(1_200_000)
        assert listener.streams == 1, "it is old, and a frame is in work"
        if over_age:
            clock.ahead_us += 6_000_000
        else:
            detector.gate.set()
            assert gateway.until(Result).seq == 1
        eventually(lambda: made.sessions == 0, what="the old stream's end")
        detector.gate.set()
