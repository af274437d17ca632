"""The worker in virtual time: the queue, the admission and the credit of `cloud.scheduling`, and one detector.

Every head ends as exactly one of: result, reject, cancelled. As in production a frame is judged on its head,
runs earliest deadline first, is not started once expired, and a started run finishes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cloud.scheduling.admission import PayloadLimits, QueueState, judge
from cloud.scheduling.credits import Credits, Loan
from cloud.scheduling.queue import EdfQueue, Ticket
from edge.scheduling.near_timeline import Key
from edge.scheduling.quantile_window import QuantileWindow
from nearfar.simulation.clock import Clock
from pipelines.result import Load, WorkerTiming
from protos.wire.live import FrameHead
from protos.wire.session import Credit, RejectReason

SWEEP_EVERY_US = 50_000
SERVICE_SAMPLES = 200
AGENT = "simulated"
MODEL = "simulated"
LIMITS = PayloadLimits(message_bytes=16 << 20, pixels=64 << 20, decompressed_bytes=256 << 20)


@dataclass(slots=True, eq=False)
class Job:
    key: Key
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
    """`service_us(key)`: decode and detect of one frame. `seen_us`: what warm-up runs took."""

    def __init__(
        self,
        clock: Clock,
        *,
        service_us: Callable[[Key], int],
        seen_us: int,
        credit: Credit,
        max_frames: int = 64,
        max_bytes: int = 64 << 20,
    ) -> None:
        self._clock = clock
        self._service_us = service_us
        self._credit = credit
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._queue: EdfQueue[Job] = EdfQueue()
        self._credits = Credits(frames=credit.frames, size_bytes=credit.bytes, models=(MODEL,))
        self._credits.reset(AGENT)
        self._jobs: dict[Key, Job] = {}
        self._waiting_frames = 0
        self._waiting_bytes = 0
        self._running: tuple[Job, int] | None = None
        self._services = QuantileWindow(SERVICE_SAMPLES)
        self._p50_us = self._p95_us = seen_us
        self._services.add(seen_us)
        self.served = 0

    def welcome(self) -> Credit:
        """A Hello starts the window afresh."""
        self._credits.reset(AGENT)
        return self.window(self.load())

    def window(self, load: Load) -> Credit:
        """What an agent that is told `load` may have in flight."""
        return replace(self._credit, frames=load.window_frames)

    def load(self) -> Load:
        """As it is told to the agent, with its window."""
        queue_us = self._queue_us(None)
        window_frames = self._credits.tell(
            AGENT, MODEL, queue_us=queue_us, service_us=self._p50_us, now_us=self._clock.now_us
        )
        return Load(
            queue_frames=self._waiting_frames,
            queue_us=queue_us,
            service_p50_us=self._p50_us,
            service_p95_us=self._p95_us,
            window_frames=window_frames,
        )

    def head(self, key: Key, head: FrameHead, *, replied: Replied, rejected: Rejected) -> bool:
        """Judge a frame on its head: True if its body is awaited."""
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
                queue_us=self._queue_us(expiry_us),
                service_p50_us=self._p50_us,
            ),
        )
        if refusal is not None:
            rejected(refusal.reason, self.load())
            return False
        size_bytes = head.encoding.body_bytes
        loan = self._credits.take(AGENT, size_bytes, now_us)
        if loan is None:
            rejected(RejectReason.OVER_CREDIT, self.load())
            return False
        job = Job(key, expiry_us, now_us, size_bytes, loan, replied, rejected)
        self._jobs[key] = job
        self._waiting_frames += 1
        self._waiting_bytes += size_bytes
        self._clock.at((expiry_us // SWEEP_EVERY_US + 1) * SWEEP_EVERY_US, lambda: self._sweep(job))
        return True

    def body(self, key: Key) -> None:
        now_us = self._clock.now_us
        job = self._jobs.get(key)
        if job is None or job.body_us:
            return
        job.body_us = now_us
        if job.expiry_us <= now_us:
            self._expire(job)
            return
        job.ticket = self._queue.push(job, expiry_us=job.expiry_us, size_bytes=job.size_bytes)
        self._start_next()

    def cancel(self, key: Key) -> None:
        """The agent no longer wants it; a started run finishes and is sent."""
        job = self._jobs.get(key)
        if job is not None and not job.running:
            self._end(job)

    def _queue_us(self, expiry_us: int | None) -> int:
        """The delay before a new frame would start, as `cloud.lane` reckons with one instance."""
        ahead = len(self._queue) if expiry_us is None else self._queue.ahead_of(expiry_us)
        wait_us = ahead * self._p50_us
        if self._running is not None:
            wait_us += max(0, self._p50_us - (self._clock.now_us - self._running[1]))
        return wait_us

    def _start_next(self) -> None:
        if self._running is not None:
            return
        now_us = self._clock.now_us
        expired, job = self._queue.pop(now_us)
        for late in expired:
            self._expire(late)
        if job is None:
            return
        job.running = True
        self._waiting_frames -= 1
        self._waiting_bytes -= job.size_bytes
        self._running = (job, now_us)
        service_us = self._service_us(job.key)
        self._clock.at(now_us + service_us, lambda: self._done(job, service_us))

    def _done(self, job: Job, service_us: int) -> None:
        now_us = self._clock.now_us
        self._running = None
        self.served += 1
        self._services.add(service_us)
        self._p50_us = self._services.quantile(0.5) or 0
        self._p95_us = self._services.quantile(0.95) or 0
        self._end(job)
        timing = WorkerTiming(
            head_mono_us=job.head_us,
            body_mono_us=job.body_us,
            queue_us=now_us - service_us - job.body_us,
            detect_us=service_us,
            resident_us=now_us - job.body_us,
        )
        self._start_next()
        job.replied(timing, self.load())

    def _sweep(self, job: Job) -> None:
        if not job.over and not job.running:
            self._expire(job)

    def _expire(self, job: Job) -> None:
        self._end(job)
        job.rejected(RejectReason.EXPIRED, self.load())

    def _end(self, job: Job) -> None:
        if job.over:
            return
        job.over = True
        if not job.running:
            self._waiting_frames -= 1
            self._waiting_bytes -= job.size_bytes
        if job.ticket is not None:
            self._queue.remove(job.ticket)
        del self._jobs[job.key]
        self._credits.give_back(job.loan)
