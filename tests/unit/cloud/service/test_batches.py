"""Frames that run together on a real worker: who is in a batch, and that one poisoned frame hurts only itself."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.limits import ServiceLimits
from cloud.scheduling.batch_rule import BatchRule
from cloud.service import Service
from pipelines.detectors.base import CancelToken
from pipelines.errors import ConfigError, Fatal, Rejected
from pipelines.frame import Picture
from pipelines.result import Detections
from protos.wire.live import Cancel, FrameBody, FrameHead, Reject, Result
from protos.wire.session import RejectReason
from tests.support.eventually import eventually
from tests.support.peers import FakePeer
from tests.support.rigs import ENCODING, HELLO
from tests.support.workers import MODEL, GatedDetector, RawCodec, clock_us, service

MS = 1000
MOST = 4


class Batching(GatedDetector):
    """Remembers the size of every run. `poison`: runs with a picture of so many lines fail."""

    max_batch = MOST

    def __init__(self, error: type[Exception] = Fatal) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.poison = 0
        self._error = error

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        self.sizes.append(1)
        self._taste([picture])
        return super().detect(picture, cancel)

    def detect_batch(self, pictures: Sequence[Picture]) -> list[Detections]:
        self.sizes.append(len(pictures))
        self._taste(pictures)
        return [super(Batching, self).detect(picture) for picture in pictures]

    def _taste(self, pictures: Sequence[Picture]) -> None:
        if any(len(picture) == self.poison for picture in pictures):
            raise self._error("a poisoned picture")


class Agent:
    def __init__(self, made: Service) -> None:
        self.peer = FakePeer()
        self.session = made.open(self.peer)
        self.session.receive(HELLO, clock_us())

    def frame(self, seq: int, *, budget_us: int = 5_000_000, height_px: int = 240) -> None:
        encoding = replace(ENCODING, height_px=height_px)
        head = FrameHead(stream=0, seq=seq, worker_budget_us=budget_us, sent_mono_us=0, encoding=encoding)
        self.session.receive(head, clock_us())
        self.session.receive(FrameBody(stream=0, seq=seq, data=b"0123456789"), clock_us())


def held(agent: Agent, detector: Batching, others: int, *, height_px: int = 240) -> None:
    """A first frame runs and waits at the gate; `others` wait behind it."""
    detector.gate.clear()
    agent.frame(1)
    eventually(detector.running.is_set, what="a run")
    for seq in range(2, 2 + others):
        agent.frame(seq, height_px=height_px)


@pytest.mark.parametrize("decode_threads", [0, 1, 2])
def test_what_waits_while_the_model_works_is_run_together_as_far_as_it_fits(
    tmp_path: Path, decode_threads: int
) -> None:
    detector = Batching()
    with service(
        tmp_path, build=lambda: detector, batch=BatchRule(max=MOST), decode_threads=decode_threads
    ) as (made, _):
        agent = Agent(made)
        try:
            held(agent, detector, 6)
        finally:
            detector.gate.set()
        results = agent.peer.wait(Result, 7)
        assert sorted(r.seq for r in results) == list(range(1, 8))
        assert detector.sizes[:2] == [1, 4]
        # The last two share a run unless one of them is still with a decoder when the model is free.
        assert detector.sizes[2:] in ([[2]] if not decode_threads else [[2], [1, 1]])
        assert made.backlog.waiting() == (0, 0)
        assert made.drain(5_000_000)


def test_a_batch_that_is_full_does_not_wait_for_its_time(tmp_path: Path) -> None:
    detector = Batching()
    with service(tmp_path, build=lambda: detector, batch=BatchRule(max=MOST, wait_us=4_000 * MS)) as (
        made,
        _,
    ):
        agent = Agent(made)
        began_us = clock_us()
        for seq in range(1, MOST + 1):
            agent.frame(seq)
        agent.peer.wait(Result, MOST)
        assert clock_us() - began_us < 3_000 * MS
        assert detector.sizes == [MOST]


def test_a_frame_alone_waits_for_company_and_then_runs_alone(tmp_path: Path) -> None:
    detector = Batching()
    with service(tmp_path, build=lambda: detector, batch=BatchRule(max=MOST, wait_us=50 * MS)) as (made, _):
        agent = Agent(made)
        began_us = clock_us()
        agent.frame(1)
        agent.peer.wait(Result)
        assert clock_us() - began_us >= 50 * MS
        assert detector.sizes == [1]


def test_a_frame_that_cannot_wait_is_run_in_time(tmp_path: Path) -> None:
    detector = Batching()
    with service(tmp_path, build=lambda: detector, batch=BatchRule(max=MOST, wait_us=10_000 * MS)) as (
        made,
        _,
    ):
        made.backlog.work.ready(MODEL, change=0, seen=[(1, 20 * MS), (2, 20 * MS)])
        agent = Agent(made)
        agent.frame(1, budget_us=600 * MS)
        agent.peer.wait(Result)
        assert detector.sizes == [1]


@pytest.mark.parametrize(
    ("error", "reason"), [(Fatal, RejectReason.FAILED), (Rejected, RejectReason.BAD_PAYLOAD)]
)
def test_a_poisoned_picture_hurts_only_itself(
    tmp_path: Path, error: type[Exception], reason: RejectReason
) -> None:
    built: list[Batching] = []

    def build() -> Batching:
        built.append(Batching(error))
        return built[-1]

    with service(tmp_path, build=build, batch=BatchRule(max=MOST), decode_threads=0) as (made, _):
        agent = Agent(made)
        detector = built[0]
        detector.poison = 100
        try:
            held(agent, detector, 2)
            agent.frame(4, height_px=100)
            agent.frame(5)
        finally:
            detector.gate.set()
        assert sorted(r.seq for r in agent.peer.wait(Result, 4)) == [1, 2, 3, 5]
        (reject,) = agent.peer.wait(Reject)
        assert (reject.seq, reject.reason) == (4, reason)
        assert detector.sizes == [1, 4, 1, 1, 1, 1], "once together, then each by itself, once"
        assert made.metrics.value("nearfar_worker_runs_total") == 2
        assert made.metrics.value("nearfar_worker_runs_retried_total") == 1
        eventually(lambda: not made.not_ready(), what="an instance")
        agent.frame(6)
        agent.peer.wait(Result, 5)
        assert len(built) == (2 if error is Fatal else 1), "an engine that broke is built anew"


def test_a_batch_whose_frames_have_all_expired_is_not_run(tmp_path: Path) -> None:
    """F22: their time ends while they are decoded."""
    now = [1_000_000]
    detector = Batching()
    decoding, go_on = threading.Event(), threading.Event()

    class Slow(RawCodec):
        def decode(self, data, encoding, limits):
            decoding.set()
            go_on.wait(10.0)
            return super().decode(data, encoding, limits)

    with service(
        tmp_path,
        build=lambda: detector,
        codecs={"raw": Slow()},
        batch=BatchRule(max=MOST),
        clock=lambda: now[0],
        timer=False,
        decode_threads=0,
        limits=ServiceLimits(frames_in_flight=3),
    ) as (made, _):
        agent = Agent(made)
        agent.session.receive(HELLO, now[0])
        for seq in (1, 2, 3):
            head = FrameHead(stream=0, seq=seq, worker_budget_us=50 * MS, sent_mono_us=0, encoding=ENCODING)
            agent.session.receive(head, now[0])
            agent.session.receive(FrameBody(stream=0, seq=seq, data=b"0123456789"), now[0])
        assert decoding.wait(5.0)
        now[0] += 60 * MS
        go_on.set()
        rejects = agent.peer.wait(Reject, 3)
        assert {r.reason for r in rejects} == {RejectReason.EXPIRED}
        assert detector.runs == 0
        assert made.backlog.waiting() == (0, 0)
        assert made.drain(5_000_000)


def test_cancelling_one_frame_of_a_batch_that_waits_leaves_the_others(tmp_path: Path) -> None:
    detector = Batching()
    with service(tmp_path, build=lambda: detector, batch=BatchRule(max=MOST), decode_threads=0) as (made, _):
        agent = Agent(made)
        try:
            held(agent, detector, 3)
            agent.session.receive(Cancel(stream=0, seq=3), clock_us())
        finally:
            detector.gate.set()
        assert sorted(r.seq for r in agent.peer.wait(Result, 3)) == [1, 2, 4]
        assert detector.sizes == [1, 2]


def test_more_than_the_detector_takes_is_refused_at_the_start_in_words(tmp_path: Path) -> None:
    with (
        pytest.raises(
            ConfigError, match=r"batch.max: 8 pictures at once, but .* takes 4 at most; write 4 or less"
        ),
        service(tmp_path, build=Batching, batch=BatchRule(max=8)),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="takes 1 at most; leave batch out"),
        service(tmp_path, build=GatedDetector, batch=BatchRule(max=2)),
    ):
        pass


def test_warming_up_learns_what_batches_cost(tmp_path: Path) -> None:
    detector = Batching()
    with service(tmp_path, build=lambda: detector, batch=BatchRule(max=MOST), warm_up=2) as (made, _):
        assert detector.sizes == [1, 1, 2, 2, 4, 4]
        assert made.not_ready() == []


def test_several_instances_share_what_waits(tmp_path: Path) -> None:
    built: list[Batching] = []

    def build() -> Batching:
        built.append(Batching())
        return built[-1]

    with service(
        tmp_path, build=build, batch=BatchRule(max=2), instances=2, limits=ServiceLimits(frames_in_flight=16)
    ) as (made, _):
        agent = Agent(made)
        for seq in range(1, 13):
            agent.frame(seq)
        assert sorted(r.seq for r in agent.peer.wait(Result, 12)) == list(range(1, 13))
        assert sum(sum(each.sizes) for each in built) == 12
        assert made.drain(5_000_000)
