"""One model's frames in the backlog, and how long they take. Not thread-safe: the backlog holds the lock.

An instance that is free decodes the frame it takes by itself: no hand-over between threads. Only while all of
them work is the next frame decoded ahead, by the pool; what the pool decodes is spoken for by an instance.
"""

from bisect import bisect_left, insort
from collections import deque

from cloud.jobs import Job
from cloud.scheduling.queue import EdfQueue
from cloud.waiting_room import WaitingRoom

_SERVICE_SAMPLES = 200


class ModelLane:
    """`ready` instances of `instances` are usable; `working`: instance → the frame it has taken; `ahead` frames are
    being decoded by the pool; `p50_us`, `p95_us`: decode + detect of the last 200 runs."""

    def __init__(self, instances: int) -> None:
        self.instances = instances
        self.ready = 0
        self.queue = EdfQueue[Job]()
        self.ahead = 0
        self.decoded: deque[Job] = deque()
        self.working: dict[int, Job] = {}
        self.idle = WaitingRoom()
        self.p50_us = 0
        self.p95_us = 0
        self._latest: deque[int] = deque()
        self._ordered: list[int] = []

    @property
    def busy(self) -> bool:
        return bool(len(self.queue) or self.ahead or self.decoded or self.working)

    @property
    def wants_decoded(self) -> bool:
        """Whether the pool should decode a waiting frame: every instance works, and at most one frame each
        waits decoded."""
        return (
            len(self.queue) > 0
            and len(self.working) >= self.ready
            and self.ahead + len(self.decoded) < self.instances
        )

    @property
    def wants_instance(self) -> bool:
        """Whether an instance that waits has something to take."""
        waiting = len(self.idle)
        return waiting > 0 and bool(self.decoded or (len(self.queue) and self.ahead < waiting))

    def take(self, now_us: int) -> tuple[list[Job], Job | None]:
        """`(expired, next)` for an instance that asks, and is not in the waiting room."""
        expired: list[Job] = []
        while self.decoded:
            job = self.decoded.popleft()
            if job.expiry_us > now_us:
                return expired, job
            expired.append(job)
        if self.ahead > len(self.idle):  # the pool has a more urgent one nearly ready for us
            return expired, None
        late, found = self.queue.pop(now_us)
        return expired + late, found

    def queue_us(self, expiry_us: int | None, now_us: int) -> int:
        """Delay before a new frame would start (None: one that all others precede).

        Frames whose bodies are still crossing do not count: the detector is free meanwhile, and their time on
        the wire overlaps with the new frame's own.
        """
        before = len(self.queue) if expiry_us is None else self.queue.ahead_of(expiry_us)
        before += self.ahead + len(self.decoded)
        wait_us = before * self.p50_us // self.instances
        if len(self.working) == self.instances:
            wait_us += min(max(0, self.p50_us - (now_us - job.begun_us)) for job in self.working.values())
        return wait_us

    def observe(self, service_us: int) -> None:
        self._latest.append(service_us)
        insort(self._ordered, service_us)
        if len(self._latest) > _SERVICE_SAMPLES:
            del self._ordered[bisect_left(self._ordered, self._latest.popleft())]
        count = len(self._ordered)
        self.p50_us = self._ordered[(count + 1) // 2 - 1]  # nearest rank, as everywhere
        self.p95_us = self._ordered[-(-count * 95 // 100) - 1]
