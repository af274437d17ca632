"""Every admitted frame between its head and its end: the one place that threads of the worker share.

Invariants: a job is in one stage at a time and ends exactly once; its credit is given back when it ends;
at most one decoded frame waits per detector instance; work that expired is never started. Methods decide
under one lock, wake the one thread that can go on, and send nothing: what must be said to an agent is
returned, or handed to `ended`.
"""

import threading
from collections.abc import Callable

from cloud.jobs import EXPIRED, STOPPED, Failed, Job, Outcome, Stage
from cloud.lane import ModelLane
from cloud.ledger import Ledger
from cloud.scheduling.admission import Refusal
from cloud.waiting_room import WaitingRoom
from pipelines.frame import Picture
from pipelines.result import Load
from protos.wire.live import Buffer
from protos.wire.session import RejectReason

Ended = Callable[[Job, Outcome], None]


class Backlog:
    """`models`: name → instances. Thread-safe."""

    def __init__(
        self, models: dict[str, int], *, ledger: Ledger, clock_us: Callable[[], int], ended: Ended
    ) -> None:
        self._lanes = {name: ModelLane(instances) for name, instances in models.items()}
        self._ledger = ledger
        self._clock_us = clock_us
        self._ended = ended
        self._handing_over = 0
        self._lock = threading.Lock()
        self._calmer = threading.Condition(self._lock)
        self._decoders = WaitingRoom()
        self._draining = False
        self._stopped = False

    def admit(self, job: Job) -> Refusal | None:
        """Take the job in, awaiting its body; or why not."""
        with self._lock:
            return self._ledger.admit(job, self._lanes[job.model], draining=self._draining)

    def body(self, job: Job, data: Buffer, arrived_us: int) -> Failed | None:
        """The body of an admitted head; why the job ended, if it did."""
        with self._lock:
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
            del self._ledger.awaiting[id(job)]
            job.stage = Stage.QUEUED
            lane = self._lanes[job.model]
            job.ticket = lane.queue.push(job, expiry_us=job.expiry_us, size_bytes=job.size_bytes)
            self._call(lane)
            return None

    def cancel(self, job: Job) -> bool:
        """End it if its run has not started; a started run finishes and is sent."""
        with self._lock:
            if job.stage in (Stage.RUNNING, Stage.GONE):
                return False
            self._end(job)
            self._call(self._lanes[job.model])
            return True

    def sweep(self, now_us: int) -> list[Job]:
        """End what expired while waiting for its body or in the queue."""
        with self._lock:
            late = [j for j in self._ledger.awaiting.values() if j.expiry_us <= now_us]
            for lane in self._lanes.values():
                late += lane.queue.expired(now_us)
            for job in late:
                self._end(job)
            return late

    def take(self, model: str, instance: int) -> Job | None:
        """Wait for the most urgent frame whose time is not over; None once stopped.

        One without a picture is still to be decoded by the caller, who then asks `begin`.
        """
        lane = self._lanes[model]
        return self._wait(lane.idle, lambda: self._next_for_instance(lane, instance))

    def begin(self, job: Job, instance: int, picture: Picture | Failed, decode_us: int) -> bool:
        """The instance that took it has decoded it: whether it is to be run, now."""
        with self._lock:
            now_us = self._clock_us()
            over, failed = self._take_picture(job, picture, decode_us, now_us)
            if not over and failed is None and job.expiry_us > now_us:
                self._start(job, now_us)
                return True
            self._lanes[job.model].working.pop(instance, None)
            self._end(job)
            self._ease()
        if not over:
            self._ended(job, failed or EXPIRED)
        return False

    def next_to_decode(self) -> Job | None:
        """Wait for the most urgent frame of a model whose instances all work; None once stopped."""
        return self._wait(self._decoders, self._next_for_pool)

    def decoded(self, job: Job, picture: Picture | Failed, decode_us: int) -> None:
        """The picture decoded ahead, or why there is none."""
        with self._lock:
            lane = self._lanes[job.model]
            lane.ahead -= 1
            over, failed = self._take_picture(job, picture, decode_us, self._clock_us())
            if failed is not None:
                self._end(job)
            elif not over:
                job.stage = Stage.DECODED
                lane.decoded.append(job)
            self._call(lane)
            self._ease()
        if not over and failed is not None:
            self._ended(job, failed)

    def detected(self, job: Job, instance: int, outcome: Outcome, *, detect_us: int | None) -> None:
        """The run is over; `detect_us` None keeps it out of the service times."""
        with self._lock:
            lane = self._lanes[job.model]
            lane.working.pop(instance, None)
            if detect_us is not None:
                lane.observe(job.decode_us + detect_us)
            self._end(job)
            self._handing_over += 1
        try:
            self._ended(job, outcome)
        finally:
            with self._lock:
                self._handing_over -= 1
                self._ease()

    def ready(self, model: str, *, change: int, service_us: int | None = None) -> None:
        """An instance became usable (+1) or broke (−1); warm-up runs may seed the service time."""
        with self._lock:
            lane = self._lanes[model]
            lane.ready += change
            if service_us is not None:
                lane.observe(service_us)
            self._call(lane)

    def reset_credit(self, agent: str) -> None:
        """The agent said Hello: its window starts afresh."""
        with self._lock:
            self._ledger.credit.reset(agent)

    def models_not_ready(self) -> list[str]:
        with self._lock:
            return [name for name, lane in self._lanes.items() if not lane.ready]

    def load(self, model: str, now_us: int) -> Load:
        """What a new frame with all the time in the world would meet."""
        with self._lock:
            lane = self._lanes[model]
            return Load(
                queue_frames=self._ledger.frames,
                queue_us=lane.queue_us(None, now_us),
                service_p50_us=lane.p50_us,
                service_p95_us=lane.p95_us,
            )

    def waiting(self) -> tuple[int, int]:
        """`(frames, bytes)` admitted and not running."""
        with self._lock:
            return self._ledger.frames, self._ledger.size_bytes

    def oldest_us(self, now_us: int) -> int:
        """Age of the oldest frame that is admitted and not running, since its head came; 0 when there is none."""
        with self._lock:
            return max((now_us - job.head_us for job in self._not_begun()), default=0)

    def drain(self, timeout_us: int) -> bool:
        """Admit nothing more and wait until nothing is in work; False if the time was not enough."""
        with self._lock:
            self._draining = True
            return self._calmer.wait_for(self._empty, timeout_us / 1e6)

    def stop(self) -> list[Job]:
        """Let every waiting thread return; the jobs that never ran."""
        with self._lock:
            self._draining = self._stopped = True
            left = self._not_begun()
            for job in left:
                self._end(job)
            self._decoders.call_all()
            for lane in self._lanes.values():
                lane.idle.call_all()
            return left

    @property
    def admitted(self) -> int:
        """Heads let in since the start."""
        return self._ledger.admitted

    @property
    def draining(self) -> bool:
        return self._draining

    def _wait(self, room: WaitingRoom, look: Callable[[], tuple[list[Job], Job | None]]) -> Job | None:
        """The job `look` finds, under the lock; until there is one the thread waits in `room`."""
        while True:
            bell = None
            with self._lock:
                if self._stopped:
                    return None
                expired, job = look()
                for late in expired:
                    self._end(late)
                if job is None and not expired:
                    bell = room.enter()
            for late in expired:
                self._ended(late, EXPIRED)
            if job is not None:
                return job
            if bell is not None:
                bell.acquire()

    def _next_for_instance(self, lane: ModelLane, instance: int) -> tuple[list[Job], Job | None]:
        now_us = self._clock_us()
        expired, job = lane.take(now_us)
        if job is not None:
            lane.working[instance] = job
            job.begun_us = now_us - job.decode_us
            if job.picture is None:
                job.stage = Stage.DECODING
            else:
                self._start(job, now_us)
            self._call(lane)
        return expired, job

    def _next_for_pool(self) -> tuple[list[Job], Job | None]:
        for lane in self._lanes.values():
            if lane.wants_decoded:
                expired, job = lane.queue.pop(self._clock_us())
                if job is not None:
                    job.stage = Stage.DECODING
                    lane.ahead += 1
                return expired, job
        return [], None

    def _not_begun(self) -> list[Job]:
        waiting = (job for lane in self._lanes.values() for job in (*lane.queue, *lane.decoded))
        return [*self._ledger.awaiting.values(), *waiting]

    def _call(self, lane: ModelLane) -> None:
        """Wake the one thread that can go on with what waits in `lane`."""
        if lane.wants_instance:
            lane.idle.call_one()
        elif lane.wants_decoded:
            self._decoders.call_one()

    def _ease(self) -> None:
        """Whoever drains looks again."""
        if self._draining:
            self._calmer.notify_all()

    def _empty(self) -> bool:
        """Nothing in work, and every result handed to reply and record store: only then may they be flushed."""
        in_work = self._handing_over or self._ledger.awaiting
        return not in_work and not any(lane.busy for lane in self._lanes.values())

    def _take_picture(
        self, job: Job, picture: Picture | Failed, decode_us: int, now_us: int
    ) -> tuple[bool, Failed | None]:
        """Whether the job was over meanwhile, and why it has to end if it was not."""
        job.body = b""
        if isinstance(picture, Failed):
            return job.stage is Stage.GONE, picture
        if job.stage is not Stage.GONE:
            job.picture, job.decode_us, job.decoded_us = picture, decode_us, now_us
        return job.stage is Stage.GONE, STOPPED if self._stopped else None

    def _start(self, job: Job, now_us: int) -> None:
        job.stage, job.started_us = Stage.RUNNING, now_us
        self._ledger.started(job)

    def _end(self, job: Job) -> None:
        if job.stage is Stage.GONE:
            return
        self._ledger.ended(job)
        if job.ticket is not None:
            self._lanes[job.model].queue.remove(job.ticket)
        if job.stage is Stage.DECODED and job in self._lanes[job.model].decoded:
            self._lanes[job.model].decoded.remove(job)
        job.stage = Stage.GONE
        job.picture = None
        self._ease()
