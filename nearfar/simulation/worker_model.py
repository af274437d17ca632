"""The worker in virtual time: the station (queue, batches, forecast), the admission and the credit of
`cloud.scheduling`, and detectors that are durations.

Every head ends as exactly one of: result, reject, cancelled. As in production a frame is judged on its head, runs in
fair order, earliest deadline first of an agent, is not started once expired, and a started run finishes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cloud.scheduling.admission import PayloadLimits, QueueState, judge
from cloud.scheduling.batch_rule import BatchRule
from cloud.scheduling.credits import Credits, Loan
from cloud.scheduling.queue import Ticket
from cloud.scheduling.station import Station
from edge.scheduling.key import Key
from nearfar.simulation.clock import Clock
from pipelines.result import Load, WorkerTiming
from protos.wire.live import FrameHead
from protos.wire.session import Credit, RejectReason

SWEEP_EVERY_US = 50_000
AGENT = "simulated"
MODEL = "simulated"
LIMITS = PayloadLimits(message_bytes=16 << 20, pixels=64 << 20, decompressed_bytes=256 << 20)


@dataclass(slots=True, eq=False)
class Job:
    key: Key
    agent: str
    expiry_us: int
    head_us: int
    size_bytes: int
    loan: Loan
    replied: "Replied"
    rejected: "Rejected"
    body_us: int = 0
    ticket: "Ticket[Job] | None" = None
    running: bool = False
    over: bool = False


Replied = Callable[[WorkerTiming, Load], None]
Rejected = Callable[[RejectReason, Load], None]


class WorkerModel:
    """`service_us(key)`: decode and detect of one frame; a batch takes `batch_us` of what its frames take alone.
    `seen_us`: what warm-up runs took, of one frame. `credit`: of every agent."""

    def __init__(
        self,
        clock: Clock,
        *,
        service_us: Callable[[Key], int],
        seen_us: int,
        credit: Credit,
        max_frames: int = 64,
        max_bytes: int = 64 << 20,
        instances: int = 1,
        batch: BatchRule | None = None,
        batch_us: Callable[[Sequence[int]], int] = sum,
    ) -> None:
        self._clock = clock
        self._service_us = service_us
        self._batch_us = batch_us
        self._credit = credit
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self.station: Station[Job] = Station(instances=instances, batch=batch)
        self.station.ready = instances
        for size in {1, self.station.batch.max}:
            self.station.seen(size, batch_us([seen_us] * size))
        self.station.served(decode_us=0, run_us=seen_us)
        self._credits = Credits(frames=credit.frames, size_bytes=credit.bytes, models=(MODEL,))
        self._credits.reset(AGENT)
        self._jobs: dict[Key, Job] = {}
        self._waiting_frames = 0
        self._waiting_bytes = 0
        self._since_us = 0
        self._free = list(range(instances))
        self.served = 0

    def welcome(self, agent: str = AGENT) -> Credit:
        """A Hello starts the window afresh."""
        self._credits.reset(agent)
        return self.window(self.load(agent))

    def window(self, load: Load) -> Credit:
        """What an agent that is told `load` may have in flight."""
        return replace(self._credit, frames=load.window_frames)

    @property
    def held(self) -> int:
        """Frames that have not ended."""
        return len(self._jobs)

    def load(self, agent: str = AGENT) -> Load:
        """As it is told to the agent, with its window."""
        now_us = self._clock.now_us
        p50_us = self.station.frames.p50_us
        window_frames = self._credits.tell(
            agent,
            MODEL,
            queue_us=self.station.delay_behind_us(self.station.queue.length, now_us),
            service_us=p50_us,
            now_us=now_us,
        )
        return Load(
            queue_frames=self._waiting_frames,
            queue_us=self.station.delay_us(agent, None, now_us),
            service_p50_us=p50_us,
            service_p95_us=self.station.frames.p95_us,
            window_frames=window_frames,
        )

    def head(
        self, key: Key, head: FrameHead, *, replied: Replied, rejected: Rejected, agent: str = AGENT
    ) -> bool:
        """Judge a frame on its head: True if its body is awaited. Keys are those of all agents."""
        now_us = self._clock.now_us
        expiry_us = now_us + head.worker_budget_us
        refusal = judge(
            head,
            limits=LIMITS,
            queue=QueueState(
                frames=self._waiting_frames,
                size_bytes=self._waiting_bytes,
                max_frames=self._max_frames,
                max_bytes=self._max_bytes,
                queue_us=self.station.delay_us(agent, expiry_us, now_us),
                service_us=self.station.service_us(len(self.station.queue)),
            ),
        )
        if refusal is not None:
            rejected(refusal.reason, self.load(agent))
            return False
        size_bytes = head.encoding.body_bytes
        loan = self._credits.take(agent, size_bytes, now_us)
        if loan is None:
            rejected(RejectReason.OVER_CREDIT, self.load(agent))
            return False
        job = Job(key, agent, expiry_us, now_us, size_bytes, loan, replied, rejected)
        self._jobs[key] = job
        self._waiting_frames += 1
        self._waiting_bytes += size_bytes
        self._clock.at((expiry_us // SWEEP_EVERY_US + 1) * SWEEP_EVERY_US, lambda: self._sweep(job))
        return True

    def body(self, key: Key) -> None:
        now_us = self._clock.now_us
        job = self._jobs.get(key)
        if job is None or job.ticket is not None:
            return
        job.body_us = now_us
        if job.expiry_us <= now_us:
            self._expire(job)
            return
        if not len(self.station.queue):
            self._since_us = now_us
        job.ticket = self.station.queue.push(
            job, agent=job.agent, expiry_us=job.expiry_us, size_bytes=job.size_bytes
        )
        self._start_next()

    def cancel(self, key: Key) -> None:
        """The agent no longer wants it; a started run finishes and is sent."""
        job = self._jobs.get(key)
        if job is not None and not job.running:
            self._end(job)

    def _start_next(self) -> None:
        now_us = self._clock.now_us
        station = self.station
        while self._free:
            if station.batch.wait_us:
                for late in station.queue.expired(now_us):
                    self._expire(late)
                soonest_us = station.queue.soonest_us()
                if soonest_us is None:
                    return
                start_us = station.start_us(
                    waiting=len(station.queue), since_us=self._since_us, urgent_us=soonest_us
                )
                if start_us > now_us:
                    self._clock.at(start_us, self._start_next)
                    return
            size = min(station.batch.max, len(station.queue))
            run: list[Job] = []
            while len(run) < size:
                expired, job = station.take_next(now_us, size)
                for late in expired:
                    self._expire(late)
                if job is None:
                    break
                run.append(job)
            if not run:
                return
            self._since_us = now_us
            self._start(run, now_us)

    def _start(self, run: list[Job], now_us: int) -> None:
        instance = self._free.pop()
        for job in run:
            job.running = True
            self._waiting_frames -= 1
            self._waiting_bytes -= job.size_bytes
        self.station.begin(instance, now_us, size=len(run))
        run_us = self._batch_us([self._service_us(job.key) for job in run])
        self._clock.at(now_us + run_us, lambda: self._done(instance, run, run_us))

    def _done(self, instance: int, run: list[Job], run_us: int) -> None:
        now_us = self._clock.now_us
        self._free.append(instance)
        self.station.end(instance)
        self.station.seen(len(run), run_us)
        self.served += len(run)
        timings = []
        for job in run:
            self.station.served(decode_us=0, run_us=run_us)
            assert job.ticket is not None, "what runs has waited"  # noqa: S101 - an invariant
            self.station.queue.settle(job.ticket, run_us // len(run))
            self._end(job)
            timing = WorkerTiming(
                head_mono_us=job.head_us,
                body_mono_us=job.body_us,
                queue_us=now_us - run_us - job.body_us,
                detect_us=run_us,
                resident_us=now_us - job.body_us,
            )
            timings.append(timing)
        self._start_next()
        for job, timing in zip(run, timings, strict=True):
            job.replied(timing, self.load(job.agent))

    def _sweep(self, job: Job) -> None:
        if not job.over and not job.running:
            self._expire(job)

    def _expire(self, job: Job) -> None:
        self._end(job)
        job.rejected(RejectReason.EXPIRED, self.load(job.agent))

    def _end(self, job: Job) -> None:
        if job.over:
            return
        job.over = True
        if not job.running:
            self._waiting_frames -= 1
            self._waiting_bytes -= job.size_bytes
        if job.ticket is not None:
            self.station.queue.remove(job.ticket)
        del self._jobs[job.key]
        self._credits.give_back(job.loan)
