"""One transaction on the outbox file: what changes, what is evicted for it, and the ledger, all or nothing."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from edge.outbox.bounds import GAP_BYTES, RECORD_BYTES, Bounds, Tally
from edge.outbox.file import record_inserts
from edge.outbox.file.payload_rows import PayloadRows
from edge.outbox.file.refused_rows import RefusedRows
from edge.outbox.file.schema import LEDGER_COLUMNS, ledger_crc, record_crc
from edge.outbox.gaps import evicted_gap, refused_gap, unreadable_gap
from edge.outbox.payload import StoredPayload
from edge.outbox.store import PRIORITY_NUMBERS as PRIORITIES
from edge.outbox.store import Changes, Entry, Key, Stored, Watermark
from pipelines.result import Gap

EVICT_STEP = 64
_SET_LEDGER = f"UPDATE ledger SET {', '.join(f'{name} = ?' for name in (*LEDGER_COLUMNS, 'crc'))}"
_ADD_RECORD = record_inserts.insert_of(1)
_ADD_GAP = "INSERT INTO gaps (number, run, stream, first, last, reason, detail, born_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
# One look into an index each; gaps get their numbers in the order of their birth.
_ANY_TOO_OLD = (
    "SELECT "
    + " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE priority = {priority} AND born_us < :cutoff_us)"
        for table in ("records", "payloads")
        for priority in PRIORITIES
    )
    + " OR (SELECT born_us FROM gaps ORDER BY number LIMIT 1) < :cutoff_us"
    + " OR EXISTS (SELECT 1 FROM refused WHERE born_us < :cutoff_us)"
)


@dataclass(slots=True)
class Transaction:
    """Runs on `db` and keeps `tally` in step; both are as before if it fails."""

    db: sqlite3.Connection
    tally: Tally
    bounds: Bounds
    uptime_us: int

    def run(self, changes: Changes) -> None:
        self._all_or_nothing(lambda: self._apply(changes))

    def take_over(self, saved: Sequence[Stored], *, lost: int) -> int:
        """Records of a file that was set aside, `lost` of which were counted as such; how many of those remain."""
        return self._taken_over(lambda: sum(map(self._take_over, saved)), lost, "set_aside", "committed")

    def take_over_payload(self, saved: StoredPayload, data: bytes, *, lost: int) -> int:
        """As `take_over`, for one payload."""
        take = self.payloads.take_over
        return self._taken_over(
            lambda: int(take(saved, data)), lost, "payloads_set_aside", "payloads_committed"
        )

    def _taken_over(self, take: Callable[[], int], lost: int, set_aside: str, committed: str) -> int:
        taken = 0

        def work() -> None:
            nonlocal taken
            taken = take()
            back = min(taken, lost)
            self.tally.add(set_aside, -back)
            self.tally.add(committed, taken - back)  # the ledger that was known was older than the file

        self._all_or_nothing(work)
        return lost - min(taken, lost)

    def _all_or_nothing(self, work: Callable[[], None]) -> None:
        self.tally.begin()
        try:
            self.db.execute("BEGIN IMMEDIATE")
            work()
            self.tally.values["uptime_us"] = self.uptime_us
            numbers = [self.tally.get(name) for name in LEDGER_COLUMNS]
            self.db.execute(_SET_LEDGER, [*numbers, ledger_crc(self.tally.values)])
            self.db.execute("COMMIT")
        except BaseException:
            self.tally.roll_back()
            with suppress(sqlite3.Error):
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
            raise

    def _apply(self, changes: Changes) -> None:
        # First: a full disk then has room for what replaces it.
        self._remove_records(changes.acknowledged, "acked")
        for key in self._remove_records(changes.unreadable, "set_aside"):
            self._add_gap(unreadable_gap(key))
        for key in self.refused.take(changes.refused):
            self._add_gap(refused_gap(key))
        self.refused.send_again(changes.again)
        self.refused.forget(changes.forgotten)
        purged = self._rows(changes.purged)
        self._give_up(purged, "purged")
        for _, run, stream, seq in purged:
            self.payloads.remove_of((run, stream, seq), "payloads_evicted_purged")
        self._remove_gaps(changes.acknowledged_gaps)
        self.tally.add("gaps_dropped", self._remove_gaps(changes.refused_gaps))
        self._remove_payloads(changes)
        self._put_all(changes.entries)
        for gap in changes.gaps:
            self._add_gap(gap)
        if changes.marks:
            self._mark(changes.marks)
        for run in changes.ended_runs:
            self.db.execute("DELETE FROM runs WHERE run = ?", (run,))
        for payload in changes.payloads:
            self.payloads.put(payload, self.uptime_us)
        self._evict_by_age()
        self._evict_by_bytes()

    @property
    def payloads(self) -> PayloadRows:
        return PayloadRows(self.db, self.tally)

    @property
    def refused(self) -> RefusedRows:
        return RefusedRows(self.db, self.tally)

    def _remove_payloads(self, changes: Changes) -> None:
        for number, why in changes.payloads_gone:
            self.payloads.remove([number], why)
        if changes.room_for_bytes <= 0:
            return
        until_bytes = self.tally.get("payload_bytes") - changes.room_for_bytes
        self.payloads.evict(PRIORITIES, lambda: self.tally.get("payload_bytes") > until_bytes)

    def _put_all(self, entries: Sequence[Entry]) -> None:
        """All at once if each is beyond what is kept of its stream, as nearly always; else they are looked up."""
        number = self.tally.peek_number()
        values = record_inserts.new_rows(
            entries, number=number, uptime_us=self.uptime_us, highest=self._highest
        )
        if values is None:
            for entry in entries:
                self._put(entry)
            return
        record_inserts.insert(self.db, values)
        count = len(entries)
        self.tally.take_numbers(count)
        self.tally.add("committed", count)
        self.tally.add("pending", count)
        self.tally.add("bytes", sum([len(e.data) for e in entries]) + count * RECORD_BYTES)

    def _highest(self, run: bytes, stream: str) -> int:
        row = self.db.execute(
            "SELECT max(seq) FROM records WHERE run = ? AND stream = ?", (run, stream)
        ).fetchone()
        return int(row[0] or 0)

    def _put(self, entry: Entry) -> None:
        where = "WHERE run = ? AND stream = ? AND seq = ?"
        old = self.db.execute(f"DELETE FROM records {where} RETURNING length(data)", entry.key).fetchall()
        for (size,) in old:
            self.tally.add("bytes", -size - RECORD_BYTES)
        if not old:
            self.tally.add("committed")
            self.tally.add("pending")
        born_us = self.uptime_us - entry.age_us
        self._insert(entry.key, priority=entry.priority, born_us=born_us, data=entry.data)

    def _insert(self, key: Key, *, priority: int, born_us: int, data: bytes) -> None:
        number = self.tally.next_number()
        self.db.execute(_ADD_RECORD, (number, *key, priority, born_us, data, record_crc(*key, data)))
        self.tally.add("bytes", len(data) + RECORD_BYTES)

    def _take_over(self, stored: Stored) -> bool:
        where = "WHERE run = ? AND stream = ? AND seq = ?"
        if self.db.execute(f"SELECT 1 FROM records {where}", stored.key).fetchone():
            return False
        self._insert(stored.key, priority=stored.priority, born_us=stored.born_us, data=stored.data)
        self.tally.add("pending")
        return True

    def _rows(self, numbers: Iterable[int]) -> list[tuple[int, bytes, str, int]]:
        select = "SELECT entry, run, stream, seq FROM records WHERE entry = ?"
        return [row for number in numbers for row in self.db.execute(select, (number,))]

    def _remove_records(self, numbers: Iterable[int], why: str) -> list[Key]:
        keys: list[Key] = []
        returning = "RETURNING length(data), run, stream, seq"
        for number in numbers:
            removed = self.db.execute(f"DELETE FROM records WHERE entry = ? {returning}", (number,))
            for size, *key in removed.fetchall():
                self.tally.add("bytes", -size - RECORD_BYTES)
                self.tally.add("pending", -1)
                self.tally.add(why)
                keys.append((key[0], key[1], key[2]))
        return keys

    def _remove_gaps(self, numbers: Iterable[int]) -> int:
        removed = 0
        for number in numbers:
            removed += self.db.execute("DELETE FROM gaps WHERE number = ?", (number,)).rowcount
        self.tally.add("gaps", -removed)
        self.tally.add("bytes", -removed * GAP_BYTES)
        return removed

    def _add_gap(self, gap: Gap) -> None:
        """A gap that continues one that is still here becomes one longer gap, under a new number."""
        kind = (gap.run, gap.stream, gap.reason.value, gap.detail)
        before = self.db.execute(
            "DELETE FROM gaps WHERE number = (SELECT number FROM gaps WHERE run = ? AND stream = ? AND reason = ? "
            "AND detail = ? AND last = ? LIMIT 1) RETURNING first",
            (*kind, gap.first - 1),
        ).fetchall()
        first = before[0][0] if before else gap.first
        number = self.tally.next_number()
        self.db.execute(
            _ADD_GAP,
            (number, gap.run, gap.stream, first, gap.last, gap.reason.value, gap.detail, self.uptime_us),
        )
        if not before:
            self.tally.add("gaps")
            self.tally.add("bytes", GAP_BYTES)

    def _mark(self, marks: Iterable[Watermark]) -> None:
        self.db.executemany(
            "INSERT INTO runs (run, stream, reserved, settled) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (run, stream) DO UPDATE SET reserved = excluded.reserved, settled = excluded.settled",
            [(m.run, m.stream, m.reserved, m.settled) for m in marks],
        )

    def _evict_by_age(self) -> None:
        cutoff_us = self.uptime_us - self.bounds.max_age_us
        if not self.db.execute(_ANY_TOO_OLD, {"cutoff_us": cutoff_us}).fetchone()[0]:
            return
        old_gaps = self.db.execute("SELECT number FROM gaps WHERE born_us < ?", (cutoff_us,)).fetchall()
        self.tally.add("gaps_dropped", self._remove_gaps(n for (n,) in old_gaps))
        for priority in PRIORITIES:
            old = self.db.execute(
                "SELECT entry, run, stream, seq FROM records WHERE priority = ? AND born_us < ? ORDER BY born_us, entry",
                (priority, cutoff_us),
            )
            self._give_up(old.fetchall(), "age")
        self.refused.evict_older_than(cutoff_us)
        self.payloads.evict_older_than(cutoff_us, PRIORITIES)

    def _evict_by_bytes(self) -> None:
        if not self._excess():
            return
        self.refused.evict(self._excess)
        if self.bounds.coarsen:
            self.payloads.evict(PRIORITIES, self._excess)
        for priority in PRIORITIES:
            self.payloads.evict((priority,), self._excess)
            while self._excess():
                lowest = self.db.execute(
                    "SELECT entry, run, stream, seq FROM records WHERE priority = ? ORDER BY born_us, entry LIMIT ?",
                    (priority, EVICT_STEP),
                ).fetchall()
                if not lowest:
                    break
                self._give_up(lowest, "bytes")
        while self._excess() and self.tally.get("gaps") > 0:
            oldest = self.db.execute("SELECT min(number) FROM gaps").fetchall()
            self.tally.add("gaps_dropped", self._remove_gaps(n for (n,) in oldest))

    def _excess(self) -> bool:
        return self.tally.get("bytes") > self.bounds.max_bytes

    def _give_up(self, rows: list[tuple[int, bytes, str, int]], why: str) -> None:
        for number, run, stream, seq in rows:
            if why == "bytes" and not self._excess():
                return
            self._remove_records([number], f"evicted_{why}")
            self._add_gap(evicted_gap((run, stream, seq), why))
