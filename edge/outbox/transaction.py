"""One transaction on the outbox file: what changes, what is evicted for it, and the ledger, all or nothing."""

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from edge.outbox.bounds import GAP_BYTES, RECORD_BYTES, Bounds, Tally
from edge.outbox.payload_rows import PayloadRows
from edge.outbox.schema import LEDGER_COLUMNS
from edge.outbox.store import PRIORITY_NUMBERS as PRIORITIES
from edge.outbox.store import Changes, Entry, Watermark, evicted_gap
from pipelines.result import Gap

EVICT_STEP = 64
_SET_LEDGER = f"UPDATE ledger SET {', '.join(f'{name} = ?' for name in LEDGER_COLUMNS)}"
_ADD_GAP = "INSERT INTO gaps (number, run, stream, first, last, reason, detail, born_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


@dataclass(slots=True)
class Transaction:
    """Runs on `db` and keeps `tally` in step; both are as before if it fails."""

    db: sqlite3.Connection
    tally: Tally
    bounds: Bounds
    uptime_us: int

    def run(self, changes: Changes) -> None:
        self.tally.begin()
        try:
            self.db.execute("BEGIN IMMEDIATE")
            self._apply(changes)
            self.tally.values["uptime_us"] = self.uptime_us
            self.db.execute(_SET_LEDGER, [self.tally.get(name) for name in LEDGER_COLUMNS])
            self.db.execute("COMMIT")
        except BaseException:
            self.tally.roll_back()
            with suppress(sqlite3.Error):
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
            raise

    def _apply(self, changes: Changes) -> None:
        self._remove_records(
            changes.acknowledged, "acked"
        )  # first: a full disk has room for what replaces it
        self._remove_records(changes.unreadable, "set_aside")
        self._remove_gaps(changes.acknowledged_gaps)
        self._remove_payloads(changes)
        for entry in changes.entries:
            self._put(entry)
        for gap in changes.gaps:
            self._add_gap(gap)
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

    def _remove_payloads(self, changes: Changes) -> None:
        for number, why in changes.payloads_gone:
            self.payloads.remove([number], why)
        until_bytes = self.tally.get("payload_bytes") - changes.room_for_bytes
        self.payloads.evict(PRIORITIES, lambda: self.tally.get("payload_bytes") > until_bytes)

    def _put(self, entry: Entry) -> None:
        where = "WHERE run = ? AND stream = ? AND seq = ?"
        old = self.db.execute(f"DELETE FROM records {where} RETURNING length(data)", entry.key).fetchall()
        for (size,) in old:
            self.tally.add("bytes", -size - RECORD_BYTES)
        if not old:
            self.tally.add("committed")
            self.tally.add("pending")
        self.db.execute(
            "INSERT INTO records (entry, run, stream, seq, priority, born_us, data) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                self.tally.next_number(),
                *entry.key,
                entry.priority,
                self.uptime_us - entry.age_us,
                entry.data,
            ),
        )
        self.tally.add("bytes", entry.bytes)

    def _remove_records(self, numbers: Iterable[int], why: str) -> None:
        for number in numbers:
            removed = self.db.execute("DELETE FROM records WHERE entry = ? RETURNING length(data)", (number,))
            for (size,) in removed.fetchall():
                self.tally.add("bytes", -size - RECORD_BYTES)
                self.tally.add("pending", -1)
                self.tally.add(why)

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
        old_gaps = self.db.execute("SELECT number FROM gaps WHERE born_us < ?", (cutoff_us,)).fetchall()
        self.tally.add("gaps_dropped", self._remove_gaps(n for (n,) in old_gaps))
        for priority in PRIORITIES:
            old = self.db.execute(
                "SELECT entry, run, stream, seq FROM records WHERE priority = ? AND born_us < ? ORDER BY born_us, entry",
                (priority, cutoff_us),
            )
            self._give_up(old.fetchall(), "age")
        self.payloads.evict_older_than(cutoff_us, PRIORITIES)

    def _evict_by_bytes(self) -> None:
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
