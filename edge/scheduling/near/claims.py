"""Who asks for near's time, who had it, and who gives way to whom.

A frame gives way to one that matters more if it still hopes for far, or if its stream had more of near than its
weight; a stream that got nothing for long keeps what it has.
"""

from collections import deque
from collections.abc import Mapping

from edge.scheduling.fair_share import FairShare
from edge.scheduling.job import Job
from edge.scheduling.key import Key
from edge.scheduling.near.load import NearLoad
from pipelines.result import PRIORITIES, Priority, ShedReason

RUNS_KEPT = 32


class NearClaims:
    def __init__(self, weights: Mapping[Priority, float]) -> None:
        self.share = FairShare(weights)
        self.load = NearLoad()
        self._asked: dict[str, tuple[Key, int]] = {}  # the frame offered last and since when
        self._ended: deque[tuple[int, int]] = deque(maxlen=RUNS_KEPT)  # (when, importance) of whole runs

    def asked(self, job: Job, now_us: int) -> None:
        """A frame was offered, perhaps not for the first time."""
        stream = job.key[0]
        self.share.asked(stream, job.priority, now_us)
        first = self._asked.get(stream)
        if first is None or first[0] != job.key:
            self._asked[stream] = (job.key, now_us)
            self.load.asked(now_us)

    def offered_us(self, job: Job, now_us: int) -> int:
        """When `job` was offered first; when it was captured if a newer frame of its stream was offered since."""
        key, asked_us = self._asked.get(job.key[0], (job.key, now_us))
        return asked_us if key == job.key else job.captured_us

    def ran(self, job: Job, now_us: int) -> None:
        """A whole run of `job` has ended."""
        self._ended.append((now_us, importance(job)))

    def why_shed(self, job: Job) -> ShedReason | None:
        """Why `job` gets no answer although near works: while it waited near ran other frames. None if it is
        not that."""
        _, since_us = self._asked.get(job.key[0], (job.key, 0))
        ran = [its for ended_us, its in self._ended if ended_us >= since_us]
        if not ran:
            return None
        return ShedReason.PRIORITY if max(ran) > importance(job) else ShedReason.OVERLOAD

    def gives_way(self, other: Job, job: Job, now_us: int, *, hopeful_only: bool = False) -> bool:
        """Whether `other` leaves its near time to `job`; `hopeful_only`: only if it still hopes for far."""
        if importance(other) >= importance(job) or self.share.starved(other.key[0], now_us):
            return False
        if other.far_hoped:
            return True
        rank = self.share.rank
        return not hopeful_only and (
            rank(other.key[0], other.priority, now_us) > rank(job.key[0], job.priority, now_us)
        )


def importance(job: Job) -> int:
    """The larger the more a frame matters."""
    return PRIORITIES.index(job.priority)
