"""Records that a worker could read nothing of, in the outbox file: they count as set aside, are kept with what it said, and
go first when the bounds are reached. A gap has explained each to the cloud."""

import sqlite3
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from edge.outbox.bounds import RECORD_BYTES, Tally
from edge.outbox.changes import Key

TABLE = """
CREATE TABLE refused (
    entry INTEGER PRIMARY KEY,  -- as it was in records
    run BLOB NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL,
    priority INTEGER NOT NULL, born_us INTEGER NOT NULL,
    reason TEXT NOT NULL,       -- what the worker said
    data BLOB NOT NULL, crc INTEGER
);
CREATE INDEX refused_by_age ON refused (born_us, entry);
"""
REASON_CHARACTERS = 200
EVICT_STEP = 64

_COLUMNS = "run, stream, seq, priority, born_us, data, crc"


@dataclass(slots=True)
class RefusedRows:
    """Within a transaction on `db`; keeps `tally` in step."""

    db: sqlite3.Connection
    tally: Tally

    def take(self, refused: Mapping[int, str]) -> list[Key]:
        """Move these records here; whose they were. Deleted first, so that a full disk has room for it."""
        keys: list[Key] = []
        for number, why in refused.items():
            delete = f"DELETE FROM records WHERE entry = ? RETURNING {_COLUMNS}"
            for row in self.db.execute(delete, (number,)).fetchall():
                self.db.execute(
                    f"INSERT INTO refused (entry, reason, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (number, why[:REASON_CHARACTERS], *row),
                )
                self.tally.add("pending", -1)
                self.tally.add("set_aside")
                self.tally.add("refused")
                keys.append((row[0], row[1], row[2]))
        return keys

    def send_again(self, numbers: Collection[int]) -> None:
        """Back among the records, under new numbers; one whose identity has a newer record is forgotten."""
        for number in numbers:
            for size, *row in self._remove("entry = ?", number):
                known = self.db.execute(
                    "SELECT 1 FROM records WHERE run = ? AND stream = ? AND seq = ?", row[:3]
                ).fetchone()
                if known:
                    continue
                self.db.execute(
                    f"INSERT INTO records (entry, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (self.tally.next_number(), *row),
                )
                self.tally.add("bytes", size + RECORD_BYTES)
                self.tally.add("set_aside", -1)
                self.tally.add("pending")

    def forget(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self._remove("entry = ?", number)

    def evict_older_than(self, born_us: int) -> None:
        self._remove("born_us < ?", born_us)

    def evict(self, excess: Callable[[], bool]) -> None:
        """The oldest first, while there is `excess`."""
        while self.tally.get("refused") > 0 and excess():
            oldest = "entry IN (SELECT entry FROM refused ORDER BY born_us, entry LIMIT ?)"
            if not self._remove(oldest, EVICT_STEP):
                return

    def _remove(self, where: str, value: int) -> list[tuple[Any, ...]]:
        """Rows that are gone: size of the data, then their columns."""
        delete = f"DELETE FROM refused WHERE {where} RETURNING length(data), {_COLUMNS}"
        removed = self.db.execute(delete, (value,)).fetchall()
        for size, *_ in removed:
            self.tally.add("bytes", -size - RECORD_BYTES)
            self.tally.add("refused", -1)
        return removed
