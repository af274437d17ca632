"""On a real service: whose frame is next, and what each agent is told about the wait."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from cloud.agents.session import WorkerSession
from cloud.limits import ServiceLimits
from pipelines.detectors.base import CancelToken
from pipelines.frame import Picture
from pipelines.result import Detections
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.session import Ping, Pong, RejectReason
from tests.support.eventually import eventually
from tests.support.peers import FakePeer
from tests.support.rigs import ENCODING, HELLO, Rig, rig_in
from tests.support.workers import MODEL, GatedDetector, clock_us

MS = 1000


class Order(FakePeer):
    """Notes in `seen` whose results came, in the order in which they did."""

    def __init__(self, name: str, seen: list[str]) -> None:
        super().__init__()
        self._name = name
        self._seen = seen

    def send(self, message):
        if isinstance(message, Result):
            self._seen.append(self._name)
        return super().send(message)


class Agent:
    def __init__(self, rig: Rig, name: str, seen: list[str]) -> None:
        self.peer = Order(name, seen)
        self.session: WorkerSession = rig.service.open(self.peer)
        self.session.receive(replace(HELLO, agent=name), clock_us())

    def frame(self, seq: int, budget_us: int = 5_000 * MS) -> None:
        head = FrameHead(stream=0, seq=seq, worker_budget_us=budget_us, sent_mono_us=0, encoding=ENCODING)
        self.session.receive(head, clock_us())
        self.session.receive(FrameBody(stream=0, seq=seq, data=b"0123456789"), clock_us())

    def queue_us(self) -> int:
        self.session.receive(Ping(nonce=len(self.peer.all(Pong)), sent_mono_us=0), clock_us())
        load = self.peer.all(Pong)[-1].load
        assert load is not None
        return load.queue_us


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with rig_in(tmp_path) as made:
        yield made


class Timed(GatedDetector):
    """Every run takes 20 ms, and waits for the gate."""

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        found = super().detect(picture, cancel)
        Event().wait(0.02)
        return found


def test_the_frame_of_a_modest_agent_does_not_wait_behind_those_of_a_greedy_one(tmp_path: Path) -> None:
    seen: list[str] = []
    detector = Timed()
    with rig_in(tmp_path, detector=detector) as rig:
        greedy, modest = Agent(rig, "greedy", seen), Agent(rig, "modest", seen)
        rig.service.backlog.work.ready(MODEL, change=0, seen=[(1, 20 * MS)] * 20)
        detector.gate.clear()
        greedy.frame(1)
        eventually(detector.running.is_set, what="a run")
        for seq in range(2, 9):
            greedy.frame(seq)
        for seq in (1, 2):
            modest.frame(seq, budget_us=60_000 * MS)
        detector.gate.set()
        eventually(lambda: len(seen) == 10, what="every result")
    # the one that ran, the one that was decoded ahead before the other agent came, and then by turns
    assert seen.count("modest") == 2
    assert max(i for i, name in enumerate(seen) if name == "modest") <= 6


def test_each_agent_is_told_the_wait_that_it_would_meet(rig: Rig) -> None:
    seen: list[str] = []
    greedy, modest = Agent(rig, "greedy", seen), Agent(rig, "modest", seen)
    rig.service.backlog.work.ready(MODEL, change=0, seen=[(1, 1_000 * MS)])
    rig.detector.gate.clear()
    greedy.frame(1)
    eventually(rig.detector.running.is_set, what="a run")
    for seq in range(2, 7):
        greedy.frame(seq, budget_us=60_000 * MS)
    assert greedy.queue_us() >= 5_000 * MS
    assert modest.queue_us() <= 3_100 * MS
    greedy.frame(7, budget_us=1_500 * MS)
    (reject,) = greedy.peer.wait(Reject)
    assert reject.reason is RejectReason.TOO_LATE
    assert reject.queue_us >= 5_000 * MS
    modest.frame(1, budget_us=4_500 * MS)
    assert modest.peer.all(Reject) == []


def test_in_a_full_queue_an_agent_with_many_frames_makes_room_for_one_with_fewer(tmp_path: Path) -> None:
    limits = ServiceLimits(queue_frames=4)
    with rig_in(tmp_path, limits=limits) as rig:
        seen: list[str] = []
        greedy, modest = Agent(rig, "greedy", seen), Agent(rig, "modest", seen)
        rig.detector.gate.clear()
        greedy.frame(1)
        eventually(rig.detector.running.is_set, what="a run")
        for seq in range(2, 6):
            greedy.frame(seq, budget_us=(60 + seq) * 1_000 * MS)
        greedy.frame(6)
        assert greedy.peer.all(Reject)[0].seq == 6, "nobody makes room for oneself"
        modest.frame(1)
        assert modest.peer.all(Reject) == []
        (_, displaced) = greedy.peer.wait(Reject, 2)
        assert (displaced.seq, displaced.reason) == (5, RejectReason.QUEUE_FULL)
        assert "an agent with fewer frames" in displaced.text
        modest.frame(2)
        assert rig.service.backlog.waiting()[0] == 4
        rig.detector.gate.set()
        eventually(lambda: len(seen) == 5, what="every result")
        assert rig.service.drain(5_000_000)
