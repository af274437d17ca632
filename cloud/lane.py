"""One model's frames in the backlog, and how long they take. Not thread-safe: the backlog holds the lock."""

from collections import deque
from dataclasses import dataclass, field

from cloud.jobs import Job
from cloud.scheduling.queue import EdfQueue
from pipelines.windows import SampleWindow

_SERVICE_SAMPLES = 200


@dataclass(slots=True)
class ModelLane:
    """`ready` instances of `instances` are usable; `p50_us`, `p95_us`: decode + detect of the last 200 runs."""

    instances: int
    ready: int = 0
    queue: EdfQueue[Job] = field(default_factory=EdfQueue)
    decoding: int = 0
    decoded: deque[Job] = field(default_factory=deque)
    running: dict[int, Job] = field(default_factory=dict)
    service: SampleWindow = field(default_factory=lambda: SampleWindow(_SERVICE_SAMPLES))
    p50_us: int = 0
    p95_us: int = 0

    @property
    def busy(self) -> bool:
        return bool(len(self.queue) or self.decoding or self.decoded or self.running)

    @property
    def wants_decoded(self) -> bool:
        """Whether a frame waits that may be decoded: at most one decoded frame waits per instance."""
        return len(self.queue) > 0 and self.decoding + len(self.decoded) < self.instances

    def queue_us(self, expiry_us: int | None, now_us: int) -> int:
        """Delay before a new frame would start (None: one that all others precede).

        Frames whose bodies are still crossing do not count: the detector is free meanwhile, and their time on
        the wire overlaps with the new frame's own.
        """
        ahead = len(self.queue) if expiry_us is None else self.queue.ahead_of(expiry_us)
        ahead += self.decoding + len(self.decoded)
        wait_us = ahead * self.p50_us // self.instances
        if len(self.running) == self.instances:
            wait_us += min(max(0, self.p50_us - (now_us - job.started_us)) for job in self.running.values())
        return wait_us

    def observe(self, service_us: int, now_us: int) -> None:
        self.service.add(service_us, now_us)
        self.p50_us = int(self.service.quantile(0.5, now_us) or 0)
        self.p95_us = int(self.service.quantile(0.95, now_us) or 0)
