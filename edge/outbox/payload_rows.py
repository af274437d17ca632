"""The payloads in an outbox file: their table, inside whatever transaction the caller has begun.

A look reads no picture: `data` is the last column, and SQLite follows its pages only when asked. Pieces are read through
an open BLOB, so a picture is never in memory whole.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from edge.outbox.bounds import Tally
from edge.outbox.payload import PAYLOAD_BYTES, PayloadEntry, Shown, StoredPayload
from pipelines.frame import Encoding

TABLE = """
CREATE TABLE payloads (
    number INTEGER PRIMARY KEY,  -- from ledger.next_number
    run BLOB NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL,
    priority INTEGER NOT NULL,   -- 0 low, 1 normal, 2 high
    born_us INTEGER NOT NULL,    -- ledger.uptime_us at capture; may be negative
    sha256 BLOB NOT NULL, size_bytes INTEGER NOT NULL,
    codec TEXT NOT NULL, quality INTEGER NOT NULL, width_px INTEGER NOT NULL, height_px INTEGER NOT NULL,
    bits INTEGER NOT NULL, channels INTEGER NOT NULL,
    source_width_px INTEGER NOT NULL, source_height_px INTEGER NOT NULL, hard INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (run, stream, seq)
);
CREATE INDEX payloads_by_worth ON payloads (priority, born_us, number);
"""

EVICT_STEP = 16
_COLUMNS = (
    "number, run, stream, seq, priority, born_us, sha256, size_bytes, codec, quality, width_px, height_px, bits, "
    "channels, source_width_px, source_height_px, hard"
)
_PUT = f"INSERT INTO payloads ({_COLUMNS}, data) VALUES ({', '.join('?' * 18)})"
_DROP = "DELETE FROM payloads WHERE number = ? RETURNING size_bytes"


@dataclass(slots=True)
class PayloadRows:
    """Changes to the table; `tally` is kept in step and rolled back by whoever began the transaction."""

    db: sqlite3.Connection
    tally: Tally

    def put(self, entry: PayloadEntry, uptime_us: int) -> None:
        shown, e = entry.shown, entry.shown.encoding
        self.tally.add("payloads_committed")
        self.tally.add("payloads_pending")
        same = "SELECT number FROM payloads WHERE run = ? AND stream = ? AND seq = ?"
        # The newer one stands for both.
        self.remove([n for (n,) in self.db.execute(same, shown.key).fetchall()], "payloads_acked")
        self.db.execute(
            _PUT,
            (
                self.tally.next_number(),
                *shown.key,
                shown.priority,
                uptime_us - entry.age_us,
                shown.sha256,
                len(entry.data),
                e.codec,
                e.quality,
                e.width_px,
                e.height_px,
                e.bits,
                e.channels,
                *shown.source_size,
                int(shown.hard),
                entry.data,
            ),
        )
        self.tally.add("bytes", entry.bytes)
        self.tally.add("payload_bytes", entry.bytes)

    def remove(self, numbers: Iterable[int], why: str) -> None:
        for number in numbers:
            for (size_bytes,) in self.db.execute(_DROP, (number,)).fetchall():
                self.tally.add("bytes", -size_bytes - PAYLOAD_BYTES)
                self.tally.add("payload_bytes", -size_bytes - PAYLOAD_BYTES)
                self.tally.add("payloads_pending", -1)
                self.tally.add(why)

    def evict_older_than(self, born_us: int, priorities: Sequence[int]) -> None:
        old = "SELECT number FROM payloads WHERE priority = ? AND born_us < ?"
        for priority in priorities:
            rows = self.db.execute(old, (priority, born_us)).fetchall()
            self.remove((n for (n,) in rows), "payloads_evicted_age")

    def evict(self, priorities: Sequence[int], wanted: Callable[[], bool]) -> None:
        """The lowest priority first, the oldest of it first, while `wanted`."""
        worst = "SELECT number FROM payloads WHERE priority = ? ORDER BY born_us, number LIMIT ?"
        for priority in priorities:
            while wanted():
                rows = self.db.execute(worst, (priority, EVICT_STEP)).fetchall()
                if not rows:
                    break
                for (number,) in rows:
                    if wanted():
                        self.remove([number], "payloads_evicted_bytes")


def peek(
    db: sqlite3.Connection, priorities: Iterable[int], *, limit: int, exclude: Collection[int]
) -> list[StoredPayload]:
    """By `priorities`, each of them the oldest first."""
    found: list[StoredPayload] = []
    for priority in priorities:
        rows = db.execute(
            f"SELECT {_COLUMNS} FROM payloads WHERE priority = ? ORDER BY born_us, number LIMIT ?",
            (priority, limit + len(exclude)),
        )
        found += [s for s in map(_stored, rows) if s.number not in exclude]
        if len(found) >= limit:
            break
    return found[:limit]


def read(db: sqlite3.Connection, number: int, *, offset_bytes: int, size_bytes: int) -> bytes | None:
    """A piece of a payload, shorter at its end; None when it is not there."""
    row = db.execute("SELECT size_bytes FROM payloads WHERE number = ?", (number,)).fetchone()
    if row is None:
        return None
    with db.blobopen("payloads", "data", number, readonly=True) as blob:
        blob.seek(min(offset_bytes, len(blob)))
        return blob.read(size_bytes)


def _stored(
    row: tuple[int, bytes, str, int, int, int, bytes, int, str, int, int, int, int, int, int, int, int],
) -> StoredPayload:
    number, run, stream, seq, priority, born_us, sha256, size_bytes, codec, quality, width, height, *rest = (
        row
    )
    bits, channels, source_width, source_height, hard = rest
    encoding = Encoding(
        codec=codec,
        quality=quality,
        width_px=width,
        height_px=height,
        bits=bits,
        channels=channels,
        body_bytes=size_bytes,
    )
    shown = Shown(
        key=(run, stream, seq),
        priority=priority,
        sha256=sha256,
        encoding=encoding,
        source_size=(source_width, source_height),
        hard=bool(hard),
    )
    return StoredPayload(number=number, shown=shown, born_us=born_us, size_bytes=size_bytes)
