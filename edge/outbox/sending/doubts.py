"""Batches that a worker refused for what they hold: the record that it cannot read is found by halves.

A batch goes once more as it was, then in halves, one at a time, until the record stands alone. One that was refused ALONE
times alone is given up, but only if the worker took something else meanwhile: a worker that can read nothing at all is
of another version or broken itself, and no record pays for that. Then everything stays where it is, and the worker
is asked ever less often, at least once a minute. Another connection begins anew. Sans-IO; times are µs.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from edge.outbox.changes import Key
from edge.outbox.sending.uplink import Carried
from edge.outbox.store import StoredGap

TOGETHER = 2
ALONE = 3
MOST = 1024
"""Rows in doubt at once; while there are so many, nothing is sent that could bring more."""
PAUSE_US = 100_000
PAUSE_AT_MOST_US = 60_000_000
NOTHING_IS_READ = 8
"""Refusals in a row, after which it is not the records: the halves of any batch come to fewer."""
_REMEMBERED_KEYS = 4096


@dataclass(slots=True, eq=False)
class Doubt:
    """Rows that were refused together. `out`: the batch that carries them now. `taken`: how many batches the worker had
    taken when these rows became a doubt."""

    records: dict[int, Key]
    gaps: dict[int, StoredGap]
    taken: int
    refusals: int = 0
    out: int | None = None

    def __len__(self) -> int:
        return len(self.records) + len(self.gaps)

    def halves(self) -> "list[Doubt]":
        rows = [*self.records.items()]
        middle, gaps_middle = (len(rows) + 1) // 2, len(self.gaps) // 2
        gaps = [*self.gaps.items()]
        return [
            Doubt(dict(rows[:middle]), dict(gaps[:gaps_middle]), self.taken),
            Doubt(dict(rows[middle:]), dict(gaps[gaps_middle:]), self.taken),
        ]


@dataclass(slots=True)
class Doubts:
    """Of one bulk lane. `refused`: records that are given up, with the worker's words, for the next commit; `gaps`: numbers
    of gaps that are. `batches` counts refusals for ever. `words`: what a worker says that reads nothing, else empty."""

    batches: int = 0
    words: str = ""
    refused: dict[int, str] = field(default_factory=dict)
    gaps: set[int] = field(default_factory=set)
    _waiting: list[Doubt] = field(default_factory=list)
    _from_memory: set[Key] = field(default_factory=set)
    _taken: int = 0
    _in_a_row: int = 0
    _not_before_us: int = 0

    def another(self) -> None:
        """Another connection, maybe of another worker: nothing is known of it."""
        self._waiting.clear()
        self._from_memory.clear()
        self._in_a_row = self._not_before_us = 0
        self.words = ""

    def committed(self) -> None:
        self.refused.clear()
        self.gaps.clear()

    def busy_records(self) -> set[int]:
        """Numbers of records that do not go up with others."""
        return {number for doubt in self._waiting for number in doubt.records} | self.refused.keys()

    def busy_gaps(self) -> set[int]:
        return {number for doubt in self._waiting for number in doubt.gaps} | self.gaps

    def stays(self, key: Key) -> bool:
        """Whether this record was refused when it came from memory: it goes up from the store, where it may be set aside."""
        return key in self._from_memory

    def others_wait_until_us(self, now_us: int) -> int:
        """When rows that are not in doubt may go; a time in the past: now."""
        if self._in_a_row < NOTHING_IS_READ:
            return 0
        if sum(map(len, self._waiting)) >= MOST:
            return max(self._not_before_us, now_us + PAUSE_US)
        return self._not_before_us

    def due_us(self) -> int | None:
        """When the next of them goes; None: nothing, or one is on its way."""
        if not self._waiting or any(doubt.out is not None for doubt in self._waiting):
            return None
        return self._not_before_us

    def next(self, now_us: int) -> Doubt | None:
        due_us = self.due_us()
        return self._waiting[0] if due_us is not None and now_us >= due_us else None

    def forget(self, doubt: Doubt) -> None:
        """Nothing of it is there any more."""
        self._waiting.remove(doubt)

    def lost_but(self, out: Collection[int]) -> None:
        """Only these batches are still on their way."""
        for doubt in self._waiting:
            if doubt.out not in out:
                doubt.out = None

    def took(self, batch: int) -> bool:
        """The worker took a batch; whether it read nothing before."""
        self._taken += 1
        self._waiting = [doubt for doubt in self._waiting if doubt.out != batch]
        news, self.words = bool(self.words), ""
        self._in_a_row = self._not_before_us = 0
        return news

    def refuse(self, carried: Carried, words: str, now_us: int) -> list[str]:
        """The worker refused this batch; what becomes of rows that are given up by it, in words."""
        self.batches += 1
        self._in_a_row += 1
        self._pause(now_us)
        if self._in_a_row >= NOTHING_IS_READ:
            self.words = words
        self._from_memory.update(carried.memory if len(self._from_memory) < _REMEMBERED_KEYS else ())
        doubt = next((d for d in self._waiting if d.out == carried.batch), None)
        if doubt is None:
            gaps = {gap.number: gap for gap in carried.stored_gaps}
            doubt = Doubt(dict(carried.stored), gaps, self._taken)
        else:
            self._waiting.remove(doubt)
        doubt.out = None
        doubt.refusals += 1
        if len(doubt) > 1 and doubt.refusals >= TOGETHER:
            self._waiting[:0] = doubt.halves()
        elif len(doubt) == 1 and doubt.refusals >= ALONE and self._taken > doubt.taken:
            self.refused |= dict.fromkeys(doubt.records, words)
            self.gaps |= doubt.gaps.keys()
            return [*map(_set_aside, doubt.records.values()), *map(_dropped, doubt.gaps.values())]
        elif len(doubt):
            self._waiting.append(doubt)
        return []

    def _pause(self, now_us: int) -> None:
        beyond = max(0, self._in_a_row - NOTHING_IS_READ)
        self._not_before_us = now_us + min(PAUSE_US << min(beyond, 16), PAUSE_AT_MOST_US)


def _set_aside(key: Key) -> str:
    run, stream, seq = key
    return f"{run.hex()}/{stream}/{seq} is set aside"


def _dropped(stored: StoredGap) -> str:
    gap = stored.gap
    return f"why {gap.run.hex()}/{gap.stream}/{gap.first} to {gap.last} have no record ({gap.reason}) is not told"
