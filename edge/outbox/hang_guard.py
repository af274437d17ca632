"""A disk that hangs lets no commit return: it is noticed from outside, and what waits behind it is bounded.

A failing disk says so and the keeper goes on; a hanging one takes the writer's thread with it, so this is asked and told
by other threads.
"""

import threading
from dataclasses import replace

from edge.outbox.stats import OutboxStats
from pipelines.frame import FrameId

HANGS_AFTER_US = 2_000_000


class HangGuard:
    """Times are µs of the monotonic clock. Records enter from any thread and leave on the writer's."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting = 0
        self._lost: list[FrameId] = []
        self._begun_us: int | None = None

    def enters(self, frame: FrameId) -> bool:
        """Whether there is room for one more record; if not, its frame is kept in mind to be explained."""
        with self._lock:
            if self._waiting >= self._most:
                self._lost.append(frame)
                return False
            self._waiting += 1
            return True

    def leaves(self) -> None:
        with self._lock:
            self._waiting -= 1

    def begins(self, now_us: int) -> list[FrameId]:
        """The writer has things to do; the frames whose records found no room since."""
        with self._lock:
            self._begun_us = now_us
            lost, self._lost = self._lost, []
            return lost

    def ends(self) -> None:
        """The writer waits for something to do."""
        with self._lock:
            self._begun_us = None

    def seen(self, stats: OutboxStats, now_us: int) -> OutboxStats:
        """`stats` as of the writer's last turn, with what is known of the one that does not end."""
        with self._lock:
            if self._begun_us is None or now_us - self._begun_us < HANGS_AFTER_US:
                return stats
            return replace(
                stats,
                writes=False,
                last_error=f"the disk has not answered for {(now_us - self._begun_us) // 1_000_000} s",
                uncommitted=stats.uncommitted + self._waiting,
                lost=stats.lost + len(self._lost),
            )
