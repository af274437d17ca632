"""An outbox store without a file: the least that keeps the contract, and what the file is compared with."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from edge.outbox.bounds import GAP_BYTES, Bounds, Ledger, Tally
from edge.outbox.changes import PRIORITY_NUMBERS
from edge.outbox.gaps import evicted_gap, refused_gap, unreadable_gap
from edge.outbox.payload import PayloadEntry, StoredPayload
from edge.outbox.store import Changes, Entry, Key, Stored, StoredGap, Watermark, within
from pipelines.result import Gap


class MemoryPayloads:
    """The payload half of a `MemoryOutbox`: the same promises as the table's. `fail` makes the next calls raise what it
    holds, as a full disk would."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._payloads_kept: dict[Key, tuple[StoredPayload, bytes]] = {}
        self.fail: Exception | None = None

    def payloads(self, *, limit: int, exclude: Collection[int] = ()) -> Sequence[StoredPayload]:
        self._check()
        ordered = self._ordered(lambda s: (-s.shown.priority, s.born_us, s.number))
        return [s for s in ordered if s.number not in exclude][:limit]

    def read_payload(self, number: int, *, offset_bytes: int, size_bytes: int) -> bytes | None:
        self._check()
        for stored, data in self._payloads_kept.values():
            if stored.number == number:
                return data[offset_bytes : offset_bytes + size_bytes]
        return None

    def _check(self) -> None:
        if self.fail is not None:
            raise self.fail

    def _put_payload(self, entry: PayloadEntry, uptime_us: int) -> None:
        self._tally.add("payloads_committed")
        if entry.shown.key in self._payloads_kept:
            self._drop_payload(entry.shown.key, "payloads_acked")  # the newer one stands for both
        stored = StoredPayload(
            number=self._tally.next_number(),
            shown=entry.shown,
            born_us=uptime_us - entry.age_us,
            size_bytes=len(entry.data),
        )
        self._payloads_kept[entry.shown.key] = (stored, entry.data)
        self._tally.add("bytes", stored.bytes)
        self._tally.add("payload_bytes", stored.bytes)

    def _remove_payload(self, number: int, why: str) -> None:
        for key, (stored, _) in self._payloads_kept.items():
            if stored.number == number:
                self._drop_payload(key, why)
                return

    def _remove_payload_of(self, key: Key, why: str) -> None:
        if key in self._payloads_kept:
            self._drop_payload(key, why)

    def _evict_payloads_older_than(self, born_us: int) -> None:
        for key, (stored, _) in list(self._payloads_kept.items()):
            if stored.born_us < born_us:
                self._drop_payload(key, "payloads_evicted_age")

    def _evict_payloads(self, priorities: Sequence[int], wanted: Callable[[], bool]) -> None:
        """The lowest priority first, the oldest of it first, while `wanted`."""
        for stored in self._ordered(lambda s: (s.shown.priority, s.born_us, s.number)):
            if stored.shown.priority in priorities and wanted():
                self._drop_payload(stored.shown.key, "payloads_evicted_bytes")

    def _make_room(self, size_bytes: int) -> None:
        until_bytes = self._tally.get("payload_bytes") - size_bytes
        self._evict_payloads((0, 1, 2), lambda: self._tally.get("payload_bytes") > until_bytes)

    def _ordered(self, order: Callable[[StoredPayload], tuple[int, int, int]]) -> list[StoredPayload]:
        return sorted((stored for stored, _ in self._payloads_kept.values()), key=order)

    def _drop_payload(self, key: Key, why: str) -> None:
        stored, _ = self._payloads_kept.pop(key)
        self._tally.add("bytes", -stored.bytes)
        self._tally.add("payload_bytes", -stored.bytes)
        self._tally.add(why)


class MemoryOutbox(MemoryPayloads):
    """An `OutboxStore` whose answers are lost with the process.

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
