"""Every admitted frame between its head and its end: the one place that threads of the worker share.

Invariants: a job is in one stage at a time and ends exactly once; its credit is given back when it ends;
at most one decoded frame waits per detector instance; work that expired is never started. Methods decide
under one lock and send nothing: what must be said to an agent is returned, or handed to `ended`.
"""

import threading
from collections.abc import Callable

from cloud.jobs import Failed, Job, Outcome, Stage
from cloud.lane import ModelLane
from cloud.scheduling.admission import PayloadLimits, QueueState, Refusal, judge
from cloud.scheduling.credits import Credits
from pipelines.frame import Picture
from pipelines.result import Load
from protos.wire.live import Buffer
from protos.wire.session import RejectReason

Ended = Callable[[Job, Outcome], None]
EXPIRED = Failed(RejectReason.EXPIRED, "its time was over before it could be started")


class Backlog:
    """`models`: name → instances. Thread-safe."""

    def __init__(
        self,
        models: dict[str, int],
        *,
        limits: PayloadLimits,
        credit: Credits,
        max_frames: int,
        max_bytes: int,
        clock_us: Callable[[], int],
        ended: Ended,
    ) -> None:
        self._lanes = {name: ModelLane(instances) for name, instances in models.items()}
        self._limits = limits
        self._credit = credit
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._clock_us = clock_us
        self._ended = ended
        self._handing_over = 0
        self._awaiting: dict[int, Job] = {}
        self._waiting_bytes = 0
        self._waiting_frames = 0
        self._changed = threading.Condition()
        self._draining = False
        self._stopped = False

    def admit(self, job: Job) -> Refusal | None:
        """Take the job in, awaiting its body; or why not."""
        with self._changed:
            lane = self._lanes[job.model]
            state = QueueState(
                frames=self._waiting_frames,
                size_bytes=self._waiting_bytes,
                max_frames=self._max_frames,
                max_bytes=self._max_bytes,
                queue_us=lane.queue_us(job.expiry_us, job.head_us),
                service_p50_us=lane.p50_us,
                draining=self._draining,
                model_ready=lane.ready > 0,
            )
            refusal = judge(job.head, limits=self._limits, queue=state)
            if refusal:
                return refusal
            job.loan = self._credit.take(job.id.agent, job.size_bytes)
            if job.loan is None:
                frames, size_bytes = self._credit.in_flight(job.id.agent)
                return Refusal(
                    RejectReason.OVER_CREDIT,
                    f"{frames} frames and {size_bytes} bytes of this agent are in flight",
                )
            self._awaiting[id(job)] = job
            self._waiting_frames += 1
            self._waiting_bytes += job.size_bytes
            return None

    def body(self, job: Job, data: Buffer, arrived_us: int) -> Failed | None:
        """The body of an admitted head; why the job ended, if it did."""
        with self._changed:
            if job.stage is not Stage.AWAITING_BODY:
                return None
            job.body, job.body_us = data, arrived_us
            if len(data) != job.size_bytes:
                self._end(job)
                return Failed(
                    RejectReason.BAD_PAYLOAD, f"the head promised {job.size_bytes} bytes, {len(data)} came"
                )
            if job.expiry_us <= arrived_us:
                self._end(job)
                return EXPIRED
            del self._awaiting[id(job)]
            job.stage = Stage.QUEUED
            job.ticket = self._lanes[job.model].queue.push(
                job, expiry_us=job.expiry_us, size_bytes=job.size_bytes
            )
            self._changed.notify_all()
            return None

    def cancel(self, job: Job) -> bool:
        """End it if its run has not started; a started run finishes and is sent."""
        with self._changed:
            if job.stage in (Stage.RUNNING, Stage.GONE):
                return False
            self._end(job)
            self._changed.notify_all()
            return True

    def sweep(self, now_us: int) -> list[Job]:
        """End what expired while waiting for its body or in the queue."""
        with self._changed:
            late = [j for j in self._awaiting.values() if j.expiry_us <= now_us]
            for lane in self._lanes.values():
                late += lane.queue.expired(now_us)
            for job in late:
                self._end(job)
            if late:
                self._changed.notify_all()
            return late

    def next_to_decode(self) -> Job | None:
        """Wait for the most urgent frame of a model with room for a decoded one; None once stopped."""
        while True:
            with self._changed:
                expired: list[Job] = []
                found: Job | None = None
                while not self._stopped and not expired and found is None:
                    expired, found = self._pop_to_decode()
                    if not expired and found is None:
                        self._changed.wait()
                for job in expired:
                    self._end(job)
                if found is not None:
                    found.stage = Stage.DECODING
                    self._lanes[found.model].decoding += 1
            for job in expired:
                self._ended(job, EXPIRED)
            if found is not None or self._stopped:
                return found

    def decoded(self, job: Job, picture: Picture | Failed, decode_us: int) -> None:
        """The picture, or why there is none."""
        with self._changed:
            lane = self._lanes[job.model]
            lane.decoding -= 1
            job.body = b""
            over = job.stage is Stage.GONE
            if not over and isinstance(picture, Failed):
                self._end(job)
            elif not over and not isinstance(picture, Failed):
                job.picture, job.decode_us, job.decoded_us = picture, decode_us, self._clock_us()
                job.stage = Stage.DECODED
                lane.decoded.append(job)
            self._changed.notify_all()
        if not over and isinstance(picture, Failed):
            self._ended(job, picture)

    def next_to_detect(self, model: str, instance: int) -> Job | None:
        """Wait for a decoded frame whose time is not over; None once stopped."""
        lane = self._lanes[model]
        while True:
            with self._changed:
                self._changed.wait_for(lambda: lane.decoded or self._stopped)
                if self._stopped:
                    return None
                job = lane.decoded.popleft()
                now_us = self._clock_us()
                if job.expiry_us > now_us:
                    job.stage, job.started_us = Stage.RUNNING, now_us
                    self._leave_waiting(job)
                    lane.running[instance] = job
                    self._changed.notify_all()
                    return job
                self._end(job)
                self._changed.notify_all()
            self._ended(job, EXPIRED)

    def detected(self, job: Job, instance: int, outcome: Outcome, *, detect_us: int | None) -> None:
        """The run is over; `detect_us` None keeps it out of the service times."""
        with self._changed:
            lane = self._lanes[job.model]
            lane.running.pop(instance, None)
            if detect_us is not None:
                lane.observe(job.decode_us + detect_us, self._clock_us())
            self._end(job)
            self._handing_over += 1
            self._changed.notify_all()
        try:
            self._ended(job, outcome)
        finally:
            with self._changed:
                self._handing_over -= 1
                self._changed.notify_all()

    def ready(self, model: str, *, change: int, service_us: int | None = None) -> None:
        """An instance became usable (+1) or broke (−1); warm-up runs may seed the service time."""
        with self._changed:
            lane = self._lanes[model]
            lane.ready += change
            if service_us is not None:
                lane.observe(service_us, self._clock_us())
            self._changed.notify_all()

    def reset_credit(self, agent: str) -> None:
        """The agent said Hello: its window starts afresh."""
        with self._changed:
            self._credit.reset(agent)

    def models_not_ready(self) -> list[str]:
        with self._changed:
            return [name for name, lane in self._lanes.items() if not lane.ready]

    def load(self, model: str, now_us: int) -> Load:
        """What a new frame with all the time in the world would meet."""
        with self._changed:
            lane = self._lanes[model]
            return Load(
                queue_frames=self._waiting_frames,
                queue_us=lane.queue_us(None, now_us),
                service_p50_us=lane.p50_us,
                service_p95_us=lane.p95_us,
            )

    def waiting(self) -> tuple[int, int]:
        """`(frames, bytes)` admitted and not running."""
        with self._changed:
            return self._waiting_frames, self._waiting_bytes

    def drain(self, timeout_us: int) -> bool:
        """Admit nothing more and wait until nothing is in work; False if the time was not enough."""
        with self._changed:
            self._draining = True
            return self._changed.wait_for(self._empty, timeout_us / 1e6)

    def stop(self) -> list[Job]:
        """Let every waiting thread return; the jobs that never ran."""
        with self._changed:
            self._draining = self._stopped = True
            left = [*self._awaiting.values(), *(j for lane in self._lanes.values() for j in lane.queue)]
            left += [j for lane in self._lanes.values() for j in lane.decoded]
            for job in left:
                self._end(job)
            self._changed.notify_all()
            return left

    @property
    def draining(self) -> bool:
        return self._draining

    def _empty(self) -> bool:
        """Nothing in work, and every result handed to reply and record store: only then may they be flushed."""
        return (
            not self._handing_over
            and not self._awaiting
            and not any(lane.busy for lane in self._lanes.values())
        )

    def _pop_to_decode(self) -> tuple[list[Job], Job | None]:
        now_us = self._clock_us()
        for lane in self._lanes.values():
            if lane.wants_decoded:
                return lane.queue.pop(now_us)
        return [], None

    def _end(self, job: Job) -> None:
        if job.stage is Stage.GONE:
            return
        if job.stage is not Stage.RUNNING:
            self._leave_waiting(job)
        self._awaiting.pop(id(job), None)
        if job.ticket is not None:
            self._lanes[job.model].queue.remove(job.ticket)
        if job.stage is Stage.DECODED and job in self._lanes[job.model].decoded:
            self._lanes[job.model].decoded.remove(job)
        job.stage = Stage.GONE
        job.picture = None
        if job.loan is not None:
            self._credit.give_back(job.loan)

    def _leave_waiting(self, job: Job) -> None:
        self._waiting_frames -= 1
        self._waiting_bytes -= job.size_bytes
