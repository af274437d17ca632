"""A disk that hangs lets no commit return: it is noticed from outside, and what waits behind it is bounded.

A failing disk says so and the keeper goes on; a hanging one takes the writer's thread with it, so this is asked and told
by other threads.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from edge.outbox.changes import PRIORITY_NUMBERS
from edge.outbox.keeper import Keeper
from edge.outbox.meanwhile import Listener, Meanwhile
from edge.outbox.stats import OutboxStats
from pipelines.frame import FrameId
from pipelines.result import GapReason

HANGS_AFTER_US = 2_000_000
MOST_PAYLOAD_BYTES = 32 << 20


@dataclass(slots=True, eq=False)
class WaitingRecord:
    """A record on its way to the writer: `tell` hands it to the keeper; None once it was given up."""

    frame: FrameId
    priority: int
    tell: Callable[[Keeper, int], None] | None


class HangGuard:
    """Of the writer of `run`; times are µs of the monotonic clock. Records and payloads enter from any thread and leave
    on the writer's."""

    def __init__(
        self, *, run: bytes, most_records: int, most_payload_bytes: int = MOST_PAYLOAD_BYTES
    ) -> None:
        self._run = run
        self._most_records = most_records
        self._most_payload_bytes = most_payload_bytes
        self._lock = threading.Lock()
        self._records: list[dict[int, WaitingRecord]] = [
            {} for _ in PRIORITY_NUMBERS
        ]  # by priority, as they came
        self._waiting = 0
        self._in_hand = 0  # records of the turn that is on, in no published number yet
        self._payload_bytes = 0
        self._lost = self._payloads_lost = 0
        self._meanwhile = Meanwhile()
        self._begun_us: int | None = None
        self._refused = ""

    def record_enters(self, record: WaitingRecord, now_us: int) -> bool:
        """Whether it may wait. Where there is no more room the least important of those that wait gives way, the latest
        of them: it is counted, and explained once that is possible."""
        with self._lock:
            if self._refused:
                self._lose(record, now_us)
                return False
            if self._waiting >= self._most_records:
                lesser = next(filter(None, self._records[: record.priority]), None)
                if lesser is None:
                    self._lose(record, now_us)
                    return False
                self._lose(lesser.popitem()[1], now_us)
                self._waiting -= 1
            self._records[record.priority][id(record)] = record
            self._waiting += 1
            return True

    def record_leaves(self, record: WaitingRecord) -> Callable[[Keeper, int], None] | None:
        """What hands it to the keeper, None if it was given up."""
        with self._lock:
            if self._records[record.priority].pop(id(record), None) is None:
                return None
            self._waiting -= 1
            self._in_hand += 1
            return record.tell

    def payload_enters(self, size_bytes: int) -> bool:
        """As for a record; the first has room whatever its size."""
        with self._lock:
            fits = not self._payload_bytes or self._payload_bytes + size_bytes <= self._most_payload_bytes
            if fits and not self._refused:
                self._payload_bytes += size_bytes
                return True
            self._payloads_lost += 1
            return False

    def payload_leaves(self, size_bytes: int) -> None:
        with self._lock:
            self._payload_bytes -= size_bytes

    def aside(self, tell: Callable[[Listener, int], None], now_us: int) -> bool:
        """Whether the writer hangs: then this was told to a memory that does not grow with it."""
        with self._lock:
            if not self._hangs(now_us):
                return False
            tell(self._meanwhile, now_us)
            return True

    def hangs(self, now_us: int) -> bool:
        with self._lock:
            return self._hangs(now_us)

    def begins(self, now_us: int) -> Meanwhile:
        """The writer has things to do; and what was said of frames while it could not hear."""
        with self._lock:
            self._begun_us = now_us
            said, self._meanwhile = self._meanwhile, Meanwhile()
            return said

    def ends(self) -> None:
        """The writer has published its numbers and waits for something to do."""
        with self._lock:
            self._begun_us = None
            self._in_hand = 0

    def refused(self, words: str) -> None:
        """There will be no writer: what waits is lost with the process, and stays counted."""
        with self._lock:
            self._refused = words

    def seen(self, stats: OutboxStats, now_us: int) -> OutboxStats:
        """`stats` as of the writer's last turn, with what is known of the one that does not end."""
        with self._lock:
            if self._lost or self._payloads_lost:
                lost, payloads_lost = stats.lost + self._lost, stats.payloads_lost + self._payloads_lost
                stats = replace(stats, lost=lost, payloads_lost=payloads_lost)
            if not self._hangs(now_us):
                return stats
            busy_s = (now_us - (self._begun_us or 0)) // 1_000_000
            return replace(
                stats,
                writes=False,
                last_error=self._refused or f"the outbox has been busy with its disk for {busy_s} s",
                uncommitted=stats.uncommitted + self._waiting + self._in_hand,
            )

    def _hangs(self, now_us: int) -> bool:
        begun_us = self._begun_us
        return bool(self._refused) or (begun_us is not None and now_us - begun_us >= HANGS_AFTER_US)

    def _lose(self, record: WaitingRecord, now_us: int) -> None:
        record.tell = None  # the queue holds it on, and must not hold all that it knows
        self._lost += 1
        frame = record.frame
        if frame.run == self._run:
            self._meanwhile.gap(
                stream=frame.stream, seq=frame.seq, reason=GapReason.EVICTED, detail="memory", now_us=now_us
            )
