"""One model's frames in the backlog, and the threads that wait for them. Not thread-safe: the backlog holds the lock.

An instance that is free decodes the frame it takes by itself: no hand-over between threads. Only while all of
them work, or wait for company for a batch, are frames decoded ahead, by the pool; what the pool decodes is spoken
for by an instance.
"""

from collections import deque

from cloud.backlog.jobs import Job
from cloud.backlog.waiting_room import WaitingRoom
from cloud.scheduling.batch_rule import BatchRule
from cloud.scheduling.station import Station


class ModelLane(Station[Job]):
    """`ahead` frames are being decoded by the pool; `taken`: instance → the frames it has. `may_be_led`: by the thread that
    brought a frame; never where frames wait for others to run with."""

    def __init__(
        self, instances: int, *, batch: BatchRule | None = None, decoders: int = 1, may_be_led: bool = False
    ) -> None:
        super().__init__(instances=instances, batch=batch, decoders=decoders)
        self.may_be_led = may_be_led and self.batch.max == 1
        self.ahead = 0
        self.decoded: deque[Job] = deque()
        self.taken: dict[int, list[Job]] = {}
        self.idle = WaitingRoom()
        self._deferring = False
        self._since_us = 0

    @property
    def busy(self) -> bool:
        return bool(self.queue.length or self.ahead or self.decoded or self.taken)

    @property
    def at_rest(self) -> bool:
        """Whether a new frame would start at once: nothing waits, and nothing is on an instance."""
        return not (self.runs or self.queue.length or self.ahead or self.decoded)

    @property
    def waiting(self) -> int:
        """Frames with their bodies here that no instance has."""
        return self.queue.length + self.ahead + len(self.decoded)

    @property
    def wants_decoded(self) -> bool:
        """Whether the pool should decode a waiting frame: no instance would start it now, and at most one run of each
        waits decoded."""
        return (
            self.queue.length > 0
            and self.decoders > 0
            and (self._deferring or len(self.taken) >= self.ready)
            and self.ahead + len(self.decoded) < self.instances * self.batch.max
        )

    @property
    def wants_instance(self) -> bool:
        """Whether an instance that waits has something to take."""
        seats = self.idle.seats
        return bool(seats and (self.decoded or (self.queue.length and self.ahead < len(seats))))

    def put(self, job: Job, now_us: int) -> None:
        """Its body is here."""
        if not self.waiting:
            self._since_us = now_us
        job.ticket = self.queue.push(
            job, agent=job.id.agent, expiry_us=job.expiry_us, size_bytes=job.size_bytes
        )

    def take(self, now_us: int) -> tuple[list[Job], list[Job], int | None]:
        """`(expired, run, again)` for an instance that asks, and is not in the waiting room. When `run` is empty the
        instance may ask again at `again`, None: when it is called."""
        expired: list[Job] = []
        if self.decoded:
            expired = [job for job in self.decoded if job.expiry_us <= now_us]
            for job in expired:
                self.decoded.remove(job)
        self._deferring = False
        if not self.decoded and self.ahead > len(self.idle):
            # The pool has a more urgent one nearly ready for us.
            return expired, [], None
        if self.batch.wait_us:
            expired += self.queue.expired(now_us)
            again_us = self._company_until_us()
            if again_us is not None and again_us > now_us:
                self._deferring = True
                return expired, [], again_us
        most = self.batch.max
        size = min(most, len(self.decoded) + self.queue.length) if most > 1 else 1
        run: list[Job] = []
        while self.decoded and len(run) < size:
            run.append(self.decoded.popleft())
        while len(run) < size and self.queue.length:
            late, found = self.take_next(now_us, size)
            expired += late
            if found is not None:
                run.append(found)
        self._since_us = now_us
        return expired, run, None

    def give(self, job: Job, instance: int, now_us: int) -> None:
        """To an instance that is free, a frame that nothing is before, to be decoded and run."""
        self._deferring = False
        self._since_us = now_us
        self.taken[instance] = [job]
        self.begin(instance, now_us, 1, 1)

    def forecast_us(self, agent: str, expiry_us: int | None, now_us: int) -> int:
        """Delay before a new frame of `agent` would start (`expiry_us` None: one that its others precede)."""
        return self.delay_us(agent, expiry_us, now_us, spoken_for=self.ahead + len(self.decoded))

    def behind_all_us(self, now_us: int) -> int:
        """Delay before a frame would start that everything here precedes, whosever it is."""
        return self.delay_behind_us(self.waiting, now_us)

    def _company_until_us(self) -> int | None:
        """When a run of what waits should start; None when nothing does."""
        urgent = [job.expiry_us for job in self.decoded]
        soonest_us = self.queue.soonest_us()
        if soonest_us is not None:
            urgent.append(soonest_us)
        if not urgent:
            return None
        return self.start_us(waiting=self.waiting, since_us=self._since_us, urgent_us=min(urgent))
