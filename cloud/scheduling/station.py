"""One model as the decisions see it: what waits for it, what runs, what runs cost, and when a new frame would start.

Sans-IO, driven by the worker's threads and by the simulator alike. The forecast is made for the agent that asks, in the
order in which its frame would really run; frames whose bodies still cross do not count, for the model is free meanwhile
and their time on the wire overlaps with the new frame's own. What is not foreseen is what comes later.
"""

from typing import Generic, NamedTuple, TypeVar

from cloud.scheduling.batch_rule import BatchRule
from cloud.scheduling.cost_curve import SAMPLES, CostCurve
from cloud.scheduling.fair_queue import FairQueue
from cloud.scheduling.queue_forecast import residual_us, start_delay_us
from cloud.scheduling.recent import Recent

T = TypeVar("T")

_SELDOM_LESS_PERCENT = 90
"""Of what a run usually takes."""


class Run(NamedTuple):
    """One instance at work: since when, how long that usually takes, and what one in twenty exceeds."""

    begun_us: int
    expected_us: int
    late_us: int


class Station(Generic[T]):
    """`ready` instances of `instances` are usable; `decoders` threads decode ahead of them, 0 = they decode what they
    run. `frames`: decoding plus run of the last 200 frames, `decodes`: decoding alone."""

    def __init__(self, *, instances: int = 1, batch: BatchRule | None = None, decoders: int = 1) -> None:
        self.instances = instances
        self.batch = batch or BatchRule()
        self.ready = 0
        self.queue = FairQueue[T]()
        self.runs: dict[int, Run] = {}
        self.curve = CostCurve(self.batch.max)
        self.frames = Recent(SAMPLES)
        self.decodes = Recent(SAMPLES)
        self._decoders = decoders
        self._sizes = Recent(SAMPLES)

    @property
    def decoders(self) -> int:
        return self._decoders

    def begin(self, instance: int, now_us: int, size: int, to_decode: int = 0) -> None:
        """The instance has taken `size` frames, of which it decodes `to_decode` first."""
        first_us = to_decode * self.decodes.expected_us
        self.runs[instance] = Run(now_us, first_us + self.curve.at[size], first_us + self.curve.late_us(size))

    def end(self, instance: int) -> None:
        self.runs.pop(instance, None)

    def seen(self, size: int, run_us: int) -> None:
        """A run of `size` frames took so long, decoding not included."""
        self.curve.observe(size, run_us)
        if self.batch.max > 1:
            self._sizes.add(size)

    def served(self, *, decode_us: int, run_us: int) -> None:
        """A frame was decoded and run."""
        self.decodes.add(decode_us)
        self.frames.add(decode_us + run_us)

    def share_us(self, size: int) -> int:
        """What one frame in a run of `size` costs the model."""
        return self._run_us(size) // size

    def take_next(self, now_us: int, size: int) -> tuple[list[T], T | None]:
        """`(expired, next)` of the queue, for a run of `size` frames; what is next is charged to its agent."""
        takes_us = self.curve.at[size] * _SELDOM_LESS_PERCENT // 100
        return self.queue.pop(now_us, cost_us=self.share_us(size), takes_us=takes_us)

    def delay_us(self, agent: str, expiry_us: int | None, now_us: int, *, spoken_for: int = 0) -> int:
        """Until a new frame of `agent` would start (`expiry_us` None: one that its others precede). `spoken_for` frames
        have left the queue, and none overtakes them."""
        most = self.batch.max
        before = spoken_for
        if self.queue.length:
            before += self.queue.ahead_of(agent, expiry_us, cost_us=self.share_us(most))
        return self.delay_behind_us(before, now_us)

    def delay_behind_us(self, before: int, now_us: int) -> int:
        """Until a new frame would start that `before` others precede."""
        most = self.batch.max
        if before < most and len(self.runs) < self.ready:
            return 0
        if self.ready == 1:
            runs_us = before // most * self._run_us(most) if before >= most else 0
            return runs_us + (self._left_us(next(iter(self.runs.values())), now_us) if self.runs else 0)
        free = [self._left_us(run, now_us) for run in self.runs.values()]
        free += [0] * (max(1, self.ready) - len(free))
        return start_delay_us(free, runs=before // most, run_us=self._run_us(most))

    def service_us(self, waiting: int) -> int:
        """Decoding and run of a new frame before which `waiting` others wait, some of which may share its run."""
        most = self.batch.max
        if most == 1:
            return self.frames.p50_us
        size = waiting + 1
        if len(self.runs) >= self.ready:  # others will have joined it by the time it starts
            size = max(size, self._sizes.p50_us)
        return self.decodes.p50_us + self.curve.run_us(min(most, size))

    def start_us(self, *, waiting: int, since_us: int, urgent_us: int) -> int:
        """When a run of the frames that wait before a free instance should start; see `BatchRule`."""
        return self.batch.start_us(
            waiting=waiting,
            since_us=since_us,
            urgent_us=urgent_us,
            decode_us=self.decodes.p95_us,
            curve=self.curve,
        )

    def _run_us(self, size: int) -> int:
        """From one start to the next on a busy instance: pictures are decoded ahead, unless that is what takes
        longest."""
        run_us = self.curve.at[size]
        decode_us = size * self.decodes.expected_us
        if not self._decoders:
            return run_us + decode_us
        decode_us = decode_us * self.instances // self._decoders
        return run_us if run_us > decode_us else decode_us  # noqa: FURB136 - a call costs more than all of this

    def _left_us(self, run: Run, now_us: int) -> int:
        return residual_us(expected_us=run.expected_us, late_us=run.late_us, elapsed_us=now_us - run.begun_us)
