"""What an outbox store is, and the values that cross its door.

Everything that changes goes through `commit`: one transaction, all or nothing, the ledger written with it.
Nothing is removed by reading; a row leaves when its number is acknowledged, when it is evicted (counted, and
explained by a gap) or when a damaged file is set aside (counted). A second record of one identity replaces the
first under a new number, so acknowledging what was sent never removes what came after. Time is an argument
(`now_us`, monotonic); ages are accumulated uptime, so no wall clock can make a record old.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from edge.outbox.bounds import GAP_BYTES, RECORD_BYTES, Bounds, Ledger, Tally
from edge.outbox.changes import PRIORITY_NUMBERS, Changes, Entry, Key, Watermark
from edge.outbox.gaps import evicted_gap, refused_gap, unreadable_gap
from edge.outbox.payload import MemoryPayloads, Payloads
from pipelines.result import Gap

__all__ = [
    "PRIORITY_NUMBERS",
    "Changes",
    "Entry",
    "Key",
    "MemoryOutbox",
    "OutboxStore",
    "Stored",
    "StoredGap",
    "Watermark",
    "within",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A record that is kept. `born_us` is the store's uptime at its capture (negative: before the first start)."""

    number: int
    key: Key
    priority: int
    born_us: int
    data: bytes

    @property
    def bytes(self) -> int:
        return len(self.data) + RECORD_BYTES


@dataclass(frozen=True, slots=True)
class StoredGap:
    number: int
    gap: Gap


class OutboxStore(Payloads, Protocol):
    """Used by one thread. Every method but `close` may raise Retryable: the disk is full, read-only or away;
    nothing was changed and the same call may succeed later. Damage is never raised: it is set aside."""

    def open(self, now_us: int) -> None:
        """Open or make the store; ConfigError for one that a newer version wrote."""
        ...

    def commit(self, changes: Changes, now_us: int) -> None:
        """Make `changes` and evict what exceeds the bounds; survives kill −9 once it has returned."""
        ...

    def peek(self, *, limit: int, max_bytes: int, exclude: Collection[int] = ()) -> Sequence[Stored]:
        """The records that should go next: highest priority, then oldest; at least one if there is any."""
        ...

    def find(self, key: Key) -> Stored | None: ...

    def gaps(self, *, limit: int, exclude: Collection[int] = ()) -> Sequence[StoredGap]:
        """Gaps by number."""
        ...

    def runs(self) -> Sequence[Watermark]: ...

    def uptime_us(self, now_us: int) -> int: ...

    def ledger(self) -> Ledger:
        """As of the last commit; does no I/O."""
        ...

    def sync(self) -> None:
        """Make what was committed survive a power cut."""
        ...

    def tidy(self) -> None:
        """Give space back that commits left free, and whatever else may take as long as the disk likes: to be called
        when nobody waits for a commit. Never raises."""
        ...

    def close(self, now_us: int) -> None:
        """Keep the uptime and let go of the file. Never raises."""
        ...


class MemoryOutbox(MemoryPayloads):
    """The same promises without a file: for pipelines whose answers may be lost with the process, and for tests.

    `fail` makes the next calls raise what it holds, as a full disk would.
    """

    def __init__(self, *, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._records: dict[Key, Stored] = {}
        self._gaps: dict[int, tuple[Gap, int]] = {}
        self._runs: dict[tuple[bytes, str], Watermark] = {}
        self._refused: dict[int, Stored] = {}
        super().__init__(Tally())
        self._opened_us: int | None = None
        self._uptime_at_open_us = 0

    def open(self, now_us: int) -> None:
        self._check()
        if self._opened_us is None:
            self._opened_us, self._uptime_at_open_us = now_us, self._tally.get("uptime_us")

    def commit(self, changes: Changes, now_us: int) -> None:
        self.open(now_us)
        uptime_us = self.uptime_us(now_us)
        for number in changes.acknowledged:
            self._remove(number, "acked")
        for number in changes.unreadable:
            if (stored := self._remove(number, "set_aside")) is not None:
                self._add_gap(unreadable_gap(stored.key), uptime_us)
        for number in changes.refused:
            if (stored := self._remove(number, "set_aside")) is not None:
                self._refused[number] = stored
                self._tally.add("bytes", stored.bytes)
                self._add_gap(refused_gap(stored.key), uptime_us)
        for number in changes.again:
            self._send_again(number)
        for number in changes.forgotten:
            if number in self._refused:
                self._forget_refused(number)
        for number in changes.purged:
            if (stored := self._remove(number, "evicted_purged")) is not None:
                self._add_gap(evicted_gap(stored.key, "purged"), uptime_us)
                self._remove_payload_of(stored.key, "payloads_evicted_purged")
        for number in changes.acknowledged_gaps:
            if self._gaps.pop(number, None) is not None:
                self._tally.add("bytes", -GAP_BYTES)
        self._drop_gaps(changes.refused_gaps)
        for number, why in changes.payloads_gone:
            self._remove_payload(number, why)
        self._make_room(changes.room_for_bytes)
        for entry in changes.entries:
            self._put(entry, uptime_us)
        for gap in changes.gaps:
            self._add_gap(gap, uptime_us)
        for mark in changes.marks:
            self._runs[(mark.run, mark.stream)] = mark
        self._runs = {k: m for k, m in self._runs.items() if k[0] not in changes.ended_runs}
        for payload in changes.payloads:
            self._put_payload(payload, uptime_us)
        self._evict(uptime_us)
        self._tally.values["uptime_us"] = uptime_us

    def peek(self, *, limit: int, max_bytes: int, exclude: Collection[int] = ()) -> Sequence[Stored]:
        self._check()
        ordered = sorted(self._records.values(), key=lambda s: (-s.priority, s.born_us, s.number))
        return within([s for s in ordered if s.number not in exclude], limit=limit, max_bytes=max_bytes)

    def find(self, key: Key) -> Stored | None:
        self._check()
        return self._records.get(key)

    def gaps(self, *, limit: int, exclude: Collection[int] = ()) -> Sequence[StoredGap]:
        self._check()
        return [StoredGap(n, g) for n, (g, _) in sorted(self._gaps.items()) if n not in exclude][:limit]

    def runs(self) -> Sequence[Watermark]:
        self._check()
        return [self._runs[key] for key in sorted(self._runs)]

    def uptime_us(self, now_us: int) -> int:
        since = 0 if self._opened_us is None else now_us - self._opened_us
        return self._uptime_at_open_us + since

    def ledger(self) -> Ledger:
        self._tally.values |= {"pending": len(self._records), "gaps": len(self._gaps)}
        self._tally.values |= {"payloads_pending": len(self._payloads_kept), "refused": len(self._refused)}
        return self._tally.ledger()

    def sync(self) -> None:
        self._check()

    def tidy(self) -> None:
        """Memory has nothing to give back."""

    def close(self, now_us: int) -> None:
        if self._opened_us is not None:
            self._tally.values["uptime_us"] = self.uptime_us(now_us)
        self._opened_us = None

    # -- inside -------------------------------------------------------------------------------------------

    def _put(self, entry: Entry, uptime_us: int) -> None:
        old = self._records.get(entry.key)
        self._tally.add("bytes", entry.bytes - (old.bytes if old else 0))
        if old is None:
            self._tally.add("committed")
        self._records[entry.key] = Stored(
            number=self._tally.next_number(),
            key=entry.key,
            priority=entry.priority,
            born_us=uptime_us - entry.age_us,
            data=entry.data,
        )

    def _remove(self, number: int, why: str) -> Stored | None:
        for key, stored in self._records.items():
            if stored.number == number:
                del self._records[key]
                self._tally.add("bytes", -stored.bytes)
                self._tally.add(why)
                return stored
        return None

    def _send_again(self, number: int) -> None:
        stored = self._refused.pop(number, None)
        if stored is not None:
            self._tally.add("set_aside", -1)
            self._records[stored.key] = replace(stored, number=self._tally.next_number())

    def _forget_refused(self, number: int) -> None:
        self._tally.add("bytes", -self._refused.pop(number).bytes)

    def _add_gap(self, gap: Gap, uptime_us: int) -> None:
        for number, (old, _) in self._gaps.items():
            if replace(old, first=gap.first, last=gap.last) == gap and old.last == gap.first - 1:
                del self._gaps[number]
                self._gaps[self._tally.next_number()] = (replace(gap, first=old.first), uptime_us)
                return
        self._gaps[self._tally.next_number()] = (gap, uptime_us)
        self._tally.add("bytes", GAP_BYTES)

    def _evict(self, uptime_us: int) -> None:
        cutoff_us = uptime_us - self._bounds.max_age_us
        old_gaps = [n for n, (_, born_us) in self._gaps.items() if born_us < cutoff_us]
        ordered = sorted(self._records.values(), key=lambda s: (s.priority, s.born_us, s.number))
        for number in sorted(self._refused):
            if self._refused[number].born_us < cutoff_us or self._excess():
                self._forget_refused(number)
        for stored in [s for s in ordered if s.born_us < cutoff_us]:
            self._give_up(stored, "age", uptime_us)
        self._evict_payloads_older_than(cutoff_us)
        if self._bounds.coarsen:
            self._evict_payloads(PRIORITY_NUMBERS, self._excess)
        for priority in PRIORITY_NUMBERS:
            self._evict_payloads((priority,), self._excess)
            for stored in ordered:
                if stored.priority == priority and stored.born_us >= cutoff_us and self._excess():
                    self._give_up(stored, "bytes", uptime_us)
        self._drop_gaps(old_gaps)
        for number in sorted(self._gaps):
            if self._excess():
                self._drop_gaps([number])

    def _drop_gaps(self, numbers: Collection[int]) -> None:
        for number in numbers:
            if self._gaps.pop(number, None) is not None:
                self._tally.add("bytes", -GAP_BYTES)
                self._tally.add("gaps_dropped")

    def _excess(self) -> bool:
        return self._tally.get("bytes") > self._bounds.max_bytes

    def _give_up(self, stored: Stored, why: str, uptime_us: int) -> None:
        self._remove(stored.number, f"evicted_{why}")
        self._add_gap(evicted_gap(stored.key, why), uptime_us)


def within(ordered: Sequence[Stored], *, limit: int, max_bytes: int) -> list[Stored]:
    """The first of `ordered` that fit; at least one, so that a large record is not stuck for ever."""
    chosen: list[Stored] = []
    total = 0
    for stored in ordered[:limit]:
        total += stored.bytes
        if chosen and total > max_bytes:
            break
        chosen.append(stored)
    return chosen
