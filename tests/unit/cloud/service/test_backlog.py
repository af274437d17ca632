"""Between a body and its run: who decodes, and that what expired meanwhile is never run."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cloud.limits import ServiceLimits
from cloud.service import Service
from pipelines.codecs.base import PictureLimits
from pipelines.frame import Encoding, Picture
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.session import RejectReason
from tests.support.eventually import eventually
from tests.support.peers import FakePeer
from tests.support.rigs import ENCODING, HELLO
from tests.support.workers import GatedDetector, RawCodec, clock_us, service


class WatchedCodec(RawCodec):
    """Remembers the threads that decoded, in order; `before` runs first."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.threads: list[str] = []
        self._before = before

    def decode(self, data: bytes | memoryview, encoding: Encoding, limits: PictureLimits) -> Picture:
        self._before()
        self.threads.append(threading.current_thread().name)
        return super().decode(data, encoding, limits)


class Agent:
    def __init__(self, made: Service, now_us: Callable[[], int] = clock_us) -> None:
        self.peer = FakePeer()
        self.now_us = now_us
        self.session = made.open(self.peer)
        self.session.receive(HELLO, now_us())

    def frame(self, seq: int, budget_us: int = 5_000_000, *, body: bytes = b"0123456789") -> None:
        head = FrameHead(stream=0, seq=seq, worker_budget_us=budget_us, sent_mono_us=0, encoding=ENCODING)
        self.session.receive(head, self.now_us())
        self.session.receive(FrameBody(stream=0, seq=seq, data=body), self.now_us())


def test_a_free_instance_decodes_what_it_takes_without_handing_it_over(tmp_path: Path) -> None:
    codec = WatchedCodec()
    with service(tmp_path, codecs={"raw": codec}) as (made, _):
        agent = Agent(made)
        for seq in (1, 2, 3):
            agent.frame(seq)
            agent.peer.wait(Result, seq)
    assert all(name.startswith("nearfar-detect") for name in codec.threads)


class WatchedBody(bytes):
    """Says whether others could use the backlog while it was let go of."""

    backlog: Any
    seen: list[bool]

    def __del__(self) -> None:
        other = threading.Thread(target=self.backlog.waiting)
        other.start()
        other.join(1.0)
        self.seen.append(not other.is_alive())


def _are(seen: list[bool], count: int) -> bool:
    return len(seen) == count


def test_a_body_that_is_decoded_is_let_go_of_while_others_may_use_the_backlog(tmp_path: Path) -> None:
    """For a large one that takes time, and may take a wait for the interpreter."""
    detector, seen = GatedDetector(), list[bool]()
    with service(tmp_path, build=lambda: detector, timer=False) as (made, _):
        agent = Agent(made)
        try:
            detector.gate.clear()
            for seq in (1, 2):  # the first by the instance that runs it, the second ahead of it
                body = WatchedBody(b"0123456789")
                body.backlog, body.seen = made.backlog, seen
                agent.frame(seq, body=body)
                del body
                eventually(partial(_are, seen, seq), what="a body that nobody holds")
        finally:
            detector.gate.set()
        agent.peer.wait(Result, 2)
    assert seen == [True, True]


def test_while_every_instance_works_the_next_frame_and_only_that_is_decoded_ahead(tmp_path: Path) -> None:
    codec, detector = WatchedCodec(), GatedDetector()
    with service(tmp_path, codecs={"raw": codec}, build=lambda: detector) as (made, _):
        agent = Agent(made)
        try:
            detector.gate.clear()
            agent.frame(1)
            eventually(detector.running.is_set, what="a run")
            for seq in (2, 3):
                agent.frame(seq)
            eventually(lambda: len(codec.threads) == 2, what="the next frame decoded")
            assert codec.threads[1].startswith("nearfar-decode")
            assert made.backlog.waiting()[0] == 2
        finally:
            detector.gate.set()
        assert [r.seq for r in agent.peer.wait(Result, 3)] == [1, 2, 3]
    assert len(codec.threads) == 3


def test_a_frame_that_expires_while_it_is_decoded_is_not_run(tmp_path: Path) -> None:
    """F22"""
    now = [1_000_000]
    detector = GatedDetector()

    def takes_long() -> None:
        now[0] += 60_000

    codec = WatchedCodec(before=takes_long)
    with service(
        tmp_path, codecs={"raw": codec}, build=lambda: detector, clock=lambda: now[0], timer=False
    ) as (made, _):
        agent = Agent(made, lambda: now[0])
        agent.frame(1, budget_us=50_000)
        (reject,) = agent.peer.wait(Reject)
        assert reject.reason is RejectReason.EXPIRED
        assert made.backlog.waiting() == (0, 0)
    assert detector.runs == 0


def test_a_frame_whose_decoding_a_stop_overtakes_is_rejected_and_not_run(tmp_path: Path) -> None:
    decoding, go_on = threading.Event(), threading.Event()
    detector = GatedDetector()

    def waits() -> None:
        decoding.set()
        go_on.wait(10.0)

    with service(tmp_path, codecs={"raw": WatchedCodec(before=waits)}, build=lambda: detector) as (made, _):
        agent = Agent(made)
        agent.frame(1)
        assert decoding.wait(5.0)
        stopping = threading.Thread(target=made.stop)
        stopping.start()
        eventually(lambda: made.backlog.draining, what="a stop")
        go_on.set()
        stopping.join(10.0)
        assert agent.peer.only(Reject).reason is RejectReason.DRAINING
    assert detector.runs == 0


def test_a_frame_decoded_ahead_whose_time_is_over_is_rejected_and_gives_its_place_back(
    tmp_path: Path,
) -> None:
    """F22: while every instance is inside a long run, nobody takes it, and nobody else would notice."""
    now = [1_000_000]
    codec, detector = WatchedCodec(), GatedDetector()
    limits = ServiceLimits(frames_in_flight=2)
    with service(
        tmp_path,
        codecs={"raw": codec},
        build=lambda: detector,
        clock=lambda: now[0],
        timer=False,
        limits=limits,
    ) as (made, _):
        agent = Agent(made, lambda: now[0])
        try:
            detector.gate.clear()
            agent.frame(1)
            eventually(detector.running.is_set, what="a run")
            agent.frame(2, budget_us=50_000)
            eventually(lambda: len(codec.threads) == 2, what="the next frame decoded")
            eventually(lambda: made.backlog.oldest_us(now[0] + 1) == 1, what="it waits decoded")
            now[0] += 60_000
            made.tick(now[0])
            reject = agent.peer.only(Reject)
            assert (reject.seq, reject.reason) == (2, RejectReason.EXPIRED)
            assert made.backlog.waiting() == (0, 0)
            assert made.backlog.oldest_us(now[0]) == 0
            agent.frame(3)  # its credit is free again
            assert len(agent.peer.all(Reject)) == 1
        finally:
            detector.gate.set()
        assert [r.seq for r in agent.peer.wait(Result, 2)] == [1, 3]
        assert made.drain(5_000_000)


def test_a_frame_whose_time_ends_while_it_is_decoded_ahead_is_rejected_at_once(tmp_path: Path) -> None:
    """F22"""
    now = [1_000_000]
    detector = GatedDetector()
    decoded: list[int] = []

    def second_takes_long() -> None:
        decoded.append(1)
        now[0] += 60_000 if len(decoded) == 2 else 0

    with service(
        tmp_path,
        codecs={"raw": WatchedCodec(before=second_takes_long)},
        build=lambda: detector,
        clock=lambda: now[0],
        timer=False,
    ) as (made, _):
        agent = Agent(made, lambda: now[0])
        try:
            detector.gate.clear()
            agent.frame(1)
            eventually(detector.running.is_set, what="a run")
            agent.frame(2, budget_us=50_000)
            (reject,) = agent.peer.wait(Reject)
            assert (reject.seq, reject.reason) == (2, RejectReason.EXPIRED)
        finally:
            detector.gate.set()
