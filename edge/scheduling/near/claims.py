"""Who asks for near's time, who had it, and who gives way to whom.

A frame gives way to one that matters more if it still hopes for far, or if its stream had more of near for its weight
than the other's; to any other if its stream is clearly ahead of its share, or the other's got nothing for long. A stream
that got nothing for long keeps what it has.
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
    """`share`: what each stream had of near; `load`: how much of near's time is asked for."""

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
        ran = [value for ended_us, value in self._ended if ended_us >= since_us]
        if not ran:
            return None
        return ShedReason.PRIORITY if max(ran) > importance(job) else ShedReason.OVERLOAD

    def gives_way(self, other: Job, job: Job, now_us: int, *, hopeful_only: bool = False) -> bool:
        """Whether `other` leaves its near time to `job`; `hopeful_only`: only one that matters less and hopes for far."""
        theirs, ours = other.key[0], job.key[0]
        share = self.share
        if theirs == ours or share.starved(theirs, now_us):
            return False
        lesser = importance(other) < importance(job)
        if lesser and other.far_hoped:
            return True
        if hopeful_only:
            return False
        if share.starved(ours, now_us):
            return True
        had_more = share.rank(theirs, other.priority, now_us) > share.rank(ours, job.priority, now_us)
        return had_more and (lesser or share.ahead(theirs, now_us))

    def stops(self, other: Job, job: Job, now_us: int, *, half_done: bool) -> bool:
        """Whether the run of `other` that is on is stopped for `job`. Its work is lost, so one that is half done goes on
        unless its stream is clearly ahead of its share, or the other's was starved."""
        if not self.gives_way(other, job, now_us):
            return False
        return (
            not half_done or self.share.starved(job.key[0], now_us) or self.share.ahead(other.key[0], now_us)
        )


def importance(job: Job) -> int:
    """The larger the more a frame matters."""
    return PRIORITIES.index(job.priority)
