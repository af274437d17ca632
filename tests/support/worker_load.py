"""Agents that send frames at random to a worker in virtual time, and what each met there."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from cloud.scheduling.batch_rule import BatchRule
from edge.scheduling.key import Key
from nearfar.simulation.clock import Clock
from nearfar.simulation.worker_model import WorkerModel
from pipelines.frame import Encoding
from pipelines.result import Load, WorkerTiming
from protos.wire.live import FrameHead
from protos.wire.session import Credit, RejectReason

MS = 1000
ENCODING = Encoding(codec="jpeg", quality=50, width_px=1, height_px=1, body_bytes=1000)


@dataclass
class Met:
    """One frame: what its agent was told to expect when it was let in, and what came."""

    agent: str
    said_us: int
    took_us: int
    on_time: bool


@dataclass
class WorkerLoad:
    """`service_us(random)`: of one frame; a batch of n takes that of its first and `per_frame_us` for each other."""

    seed: int = 0
    service_us: Callable[[random.Random], int] = lambda _: 10 * MS
    seen_us: int = 10 * MS
    per_frame_us: int = 10 * MS
    instances: int = 1
    batch: BatchRule = field(default_factory=BatchRule)
    window: int = 1000
    max_frames: int = 10_000
    met: list[Met] = field(default_factory=list)
    rejects: Counter[RejectReason] = field(default_factory=Counter)
    sent: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.clock = Clock()
        self.worker = WorkerModel(
            self.clock,
            service_us=lambda _: self.service_us(self.dice),
            seen_us=self.seen_us,
            credit=Credit(frames=self.window, bytes=1 << 40),
            max_frames=self.max_frames,
            max_bytes=1 << 40,
            instances=self.instances,
            batch=self.batch,
            batch_us=self._batch_us,
        )

    def frame(self, agent: str, budget_us: int) -> bool:
        """A frame comes now, head and body; whether it was let in."""
        self.sent += 1
        key: Key = (agent, self.sent)
        came_us = self.clock.now_us
        station = self.worker.station
        said_us = station.delay_us(agent, came_us + budget_us, came_us)
        said_us += station.service_us(len(station.queue))
        head = FrameHead(
            stream=0, seq=self.sent, worker_budget_us=budget_us, sent_mono_us=0, encoding=ENCODING
        )

        def replied(timing: WorkerTiming, _: Load) -> None:
            self.met.append(Met(agent, said_us, timing.resident_us, timing.resident_us <= budget_us))

        def rejected(reason: RejectReason, _: Load) -> None:
            self.rejects[reason] += 1

        let_in = self.worker.head(key, head, replied=replied, rejected=rejected, agent=agent)
        if let_in:
            self.worker.body(key)
        return let_in

    def sends(self, agent: str, *, every_us: float, budget_us: tuple[int, int], frames: int) -> None:
        """Poisson arrivals with even budgets between two."""

        def come(left: int) -> None:
            self.frame(agent, self.dice.randint(*budget_us))
            if left > 1:
                self.clock.at(self._later_us(every_us), lambda: come(left - 1))

        self.clock.at(self._later_us(every_us), lambda: come(frames))

    def run(self, until_us: int | None = None) -> None:
        """Until then, or until nothing is left to happen."""
        while (due_us := self.clock.next_us()) is not None and (until_us is None or due_us <= until_us):
            self.clock.advance(due_us)
            self.clock.run_due()
        if until_us is not None:
            self.clock.advance(until_us)

    def answered(self) -> Counter[str]:
        """On time, by agent."""
        return Counter(each.agent for each in self.met if each.on_time)

    def errors(self) -> list[float]:
        """Of each forecast, relative to what was met."""
        return [abs(each.said_us - each.took_us) / each.took_us for each in self.met]

    def median_error(self) -> float:
        return median(self.errors())

    def _later_us(self, every_us: float) -> int:
        return self.clock.now_us + round(self.dice.expovariate(1 / every_us))

    def _batch_us(self, alone_us: Sequence[int]) -> int:
        return alone_us[0] + self.per_frame_us * (len(alone_us) - 1)
