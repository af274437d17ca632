"""The service under more than it can do, in time that the test moves: nothing piles up, and what is over is gone."""

import gc
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cloud.agents.session import WorkerSession
from cloud.backlog.jobs import Job
from cloud.limits import ServiceLimits
from cloud.service import Service
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.messages import ToAgent
from protos.wire.session import Hello, Lane, RejectReason, StreamInfo
from tests.support.eventually import eventually
from tests.support.exposition import samples
from tests.support.rigs import ENCODING
from tests.support.workers import GatedDetector, service

TICK_US = 50_000
THREADS = 2  # that decode and detect
BODY = b"0123456789"


class CountingPeer:
    """Keeps no message: what is left of memory is the worker's. `rejects` by reason; `twice`: answers to one frame."""

    def __init__(self) -> None:
        self.results = 0
        self.rejects: Counter[RejectReason] = Counter()
        self.out: set[int] = set()
        self.twice = 0

    def send(self, message: ToAgent) -> bool:
        if isinstance(message, Result | Reject):
            self.twice += message.seq not in self.out
            self.out.discard(message.seq)
        if isinstance(message, Result):
            self.results += 1
        elif isinstance(message, Reject):
            self.rejects[message.reason] += 1
        return True

    def close(self) -> None:
        """Nothing to let go."""


class Agent:
    def __init__(self, made: Service, number: int, now_us: int) -> None:
        self.peer = CountingPeer()
        self.session: WorkerSession = made.open(self.peer)
        stream = StreamInfo(name="door", width_px=640, height_px=480)
        hello = Hello(agent=f"gateway-{number}", run=bytes(16), lane=Lane.LIVE, streams=(stream,))
        self.session.receive(hello, now_us)
        self._seq = 0

    def frame(self, now_us: int, *, budget_us: int) -> None:
        self._seq += 1
        self.peer.out.add(self._seq)
        head = FrameHead(
            stream=0, seq=self._seq, worker_budget_us=budget_us, sent_mono_us=0, encoding=ENCODING
        )
        self.session.receive(head, now_us)
        self.session.receive(FrameBody(stream=0, seq=self._seq, data=BODY), now_us)


class House:
    """A service whose only instance is inside a run that does not end, and the clock of both."""

    def __init__(self, made: Service, detector: GatedDetector, now: list[int], agents: int) -> None:
        self.service, self.detector, self._now = made, detector, now
        self.agents = [Agent(made, number, now[0]) for number in range(agents)]

    @property
    def now_us(self) -> int:
        return self._now[0]

    def go(self, us: int) -> None:
        """Time passes, in the steps of the service's own timer."""
        until_us = self.now_us + us
        while self.now_us < until_us:
            self._now[0] = min(until_us, self.now_us + TICK_US)
            self.service.tick(self.now_us)

    def rejects(self) -> Counter[RejectReason]:
        return sum((agent.peer.rejects for agent in self.agents), Counter())


@contextmanager
def house(folder: Path, *, agents: int, limits: ServiceLimits | None = None) -> Iterator[House]:
    detector, now = GatedDetector(), [1_000_000]
    with service(
        folder, build=lambda: detector, clock=lambda: now[0], timer=False, limits=limits, warm_up=0
    ) as (made, _):
        try:
            yield House(made, detector, now, agents)
        finally:
            detector.gate.set()


def test_more_frames_than_a_worker_can_do_leave_depth_and_age_within_their_bounds(
    tmp_path: Path,
) -> None:
    """F14: at every moment, by the gauges people watch; the age alone can raise the alarm of docs/alerts.yml."""
    dice = random.Random(14)
    longest_us, most = 400_000, 24
    limits = ServiceLimits(queue_frames=most)
    with house(tmp_path, agents=16, limits=limits) as one:
        one.detector.gate.clear()
        one.agents[0].frame(one.now_us, budget_us=longest_us)
        eventually(one.detector.running.is_set, what="the run that does not end")
        deepest = oldest_s = 0.0
        for _ in range(600):
            for agent in dice.choices(one.agents, k=8):
                agent.frame(one.now_us, budget_us=dice.randrange(50_000, longest_us))
            seen = samples(one.service.metrics) if dice.random() < 0.1 else {}
            if seen:
                deepest = max(deepest, seen["nearfar_worker_queue_frames"])
                oldest_s = max(oldest_s, seen["nearfar_worker_queue_oldest_age_seconds"])
            one.go(TICK_US)
        assert most - THREADS <= deepest <= most, "full but for what is in a thread's hands, and no fuller"
        assert 0.1 < oldest_s <= (longest_us + TICK_US) / 1e6
        rejects = one.rejects()
        assert rejects[RejectReason.EXPIRED] > 0
        assert rejects[RejectReason.QUEUE_FULL] > 0
        assert sum(rejects.values()) > 1_000, "far more came than could be done"


def test_twenty_thousand_frames_of_which_most_expire_leave_no_queue_no_credit_and_no_memory(
    tmp_path: Path,
) -> None:
    dice = random.Random(20)
    rounds, at_once = 2_500, 8
    before = _jobs_alive()
    with house(tmp_path, agents=at_once) as one:
        early = 0
        for number in range(rounds):
            runs = number % 10 == 0
            if not runs:
                one.detector.gate.clear()
            for agent in one.agents:
                agent.frame(one.now_us, budget_us=dice.randrange(10_000, 90_000))
            if not runs:
                one.go(100_000)
                one.detector.gate.set()
            eventually(lambda: not any(a.peer.out for a in one.agents), what="an end of every frame")
            if number == rounds // 5:
                early = _blocks(one)
        grown = _blocks(one) - early
        results = sum(agent.peer.results for agent in one.agents)
        rejects = one.rejects()
        assert results + sum(rejects.values()) == rounds * at_once
        assert set(rejects) == {RejectReason.EXPIRED}
        assert rejects[RejectReason.EXPIRED] > 0.6 * rounds * at_once
        assert sum(agent.peer.twice for agent in one.agents) == 0
        assert one.service.backlog.waiting() == (0, 0)
        assert one.service.backlog.oldest_us(one.now_us) == 0
        assert all(agent.session.jobs == {} for agent in one.agents)
        eventually(
            lambda: _jobs_alive() <= before + THREADS, what="no job kept, but the last one of each thread"
        )
        assert grown < rounds, (
            "less than one block for eight frames: what is left does not grow with what came"
        )
        for agent in one.agents:  # a whole window each: no credit was lost
            for _ in range(ServiceLimits().frames_in_flight):
                agent.frame(one.now_us, budget_us=10_000_000)
        eventually(lambda: not any(a.peer.out for a in one.agents), what="an answer to each")
        assert one.rejects() == rejects


def _blocks(one: House) -> int:
    """Blocks of memory that Python holds, once no record waits for its commit."""
    assert one.service.writer.flush(10_000_000)
    gc.collect()
    return sys.getallocatedblocks()


def _jobs_alive() -> int:
    gc.collect()
    return sum(isinstance(thing, Job) for thing in gc.get_objects())


def test_the_timer_sleeps_until_a_frame_expires_and_no_longer_than_it_is_told(tmp_path: Path) -> None:
    """A frame whose time is over holds its agent's credit until the timer finds it behind a long run."""
    with house(tmp_path, agents=1) as one:
        backlog, most_us = one.service.backlog, 50_000
        assert backlog.may_sleep_us(one.now_us, most_us) == most_us
        one.detector.gate.clear()
        one.agents[0].frame(one.now_us, budget_us=90_000)
        eventually(one.detector.running.is_set, what="a run")
        one.agents[0].frame(one.now_us, budget_us=80_000)
        assert backlog.may_sleep_us(one.now_us, most_us) == most_us
        assert backlog.may_sleep_us(one.now_us + 60_000, most_us) == 20_000
        one.go(100_000)
        assert one.rejects()[RejectReason.EXPIRED] == 1
        assert backlog.may_sleep_us(one.now_us, most_us) == most_us
