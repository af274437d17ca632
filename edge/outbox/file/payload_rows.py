"""The payloads in an outbox file: their table, inside whatever transaction the caller has begun.

A look reads no picture: `data` is the last column, and SQLite follows its pages only when asked. Pieces are read through
an open BLOB, so a picture is never in memory whole. `crc` covers all of a row but the picture, which has its SHA-256.
"""

import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from edge.outbox.bounds import Tally
from edge.outbox.payload import PAYLOAD_BYTES, Key, PayloadEntry, Shown, StoredPayload
from pipelines.frame import Encoding
from pipelines.result import PRIORITIES

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
    crc INTEGER,                 -- payload_crc; NULL: written by format 2
    data BLOB NOT NULL,
    UNIQUE (run, stream, seq)
);
CREATE INDEX payloads_by_worth ON payloads (priority, born_us, number);
"""

EVICT_STEP = 16
COLUMNS = (
    "number, run, stream, seq, priority, born_us, sha256, size_bytes, codec, quality, width_px, height_px, bits, "
    "channels, source_width_px, source_height_px, hard, crc"
)
_KINDS = (int, bytes, str, int, int, int, bytes, int, str, *(int,) * 8)
_SHA256_BYTES = 32
_OF_KEY = "WHERE run = ? AND stream = ? AND seq = ?"
_PUT = f"INSERT INTO payloads ({COLUMNS}, data) VALUES ({', '.join('?' * 19)})"
_DROP = "DELETE FROM payloads WHERE number = ? RETURNING length(data)"


@dataclass(slots=True)
class PayloadRows:
    """Changes to the table; `tally` is kept in step and rolled back by whoever began the transaction."""

    db: sqlite3.Connection
    tally: Tally

    def put(self, entry: PayloadEntry, uptime_us: int) -> None:
        self.tally.add("payloads_committed")
        self.remove_of(entry.shown.key, "payloads_acked")  # the newer one stands for both
        self._insert(entry.shown, uptime_us - entry.age_us, entry.data)

    def take_over(self, saved: StoredPayload, data: bytes) -> bool:
        """One of a file that was set aside, unless there is one of its frame; whether it was taken."""
        if self._numbers_of(saved.shown.key):
            return False
        self._insert(saved.shown, saved.born_us, data)
        return True

    def _insert(self, shown: Shown, born_us: int, data: bytes) -> None:
        e = shown.encoding
        row = (
            self.tally.next_number(),
            *shown.key,
            shown.priority,
            born_us,
            shown.sha256,
            len(data),
            e.codec,
            e.quality,
            e.width_px,
            e.height_px,
            e.bits,
            e.channels,
            *shown.source_size,
            int(shown.hard),
        )
        self.db.execute(_PUT, (*row, payload_crc(row), data))
        self.tally.add("payloads_pending")
        self.tally.add("bytes", len(data) + PAYLOAD_BYTES)
        self.tally.add("payload_bytes", len(data) + PAYLOAD_BYTES)

    def _numbers_of(self, key: Key) -> list[int]:
        found = self.db.execute(f"SELECT number FROM payloads {_OF_KEY}", key)
        return [number for (number,) in found.fetchall()]

    def remove_of(self, key: Key, why: str) -> None:
        """The one of this frame, if there is one."""
        self.remove(self._numbers_of(key), why)

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


def payload_crc(row: Sequence[Any]) -> int:
    """CRC-32 of the COLUMNS before the last, without the number, which a row that is saved changes."""
    return zlib.crc32(repr(tuple(row[1:])).encode())


def peek(
    db: sqlite3.Connection, priorities: Iterable[int], *, limit: int, exclude: Collection[int]
) -> tuple[list[StoredPayload], list[int]]:
    """By `priorities`, each of them the oldest first; and the numbers of those that are damaged."""
    found: list[StoredPayload] = []
    rotten: list[int] = []
    for priority in priorities:
        rows = db.execute(
            f"SELECT {COLUMNS} FROM payloads WHERE priority = ? ORDER BY born_us, number LIMIT ?",
            (priority, limit + len(exclude)),
        )
        for row in rows:
            payload = stored(row)
            if payload is None:
                rotten.append(row[0])
            elif payload.number not in exclude:
                found.append(payload)
        if len(found) >= limit:
            break
    return found[:limit], rotten


def read(db: sqlite3.Connection, number: int, *, offset_bytes: int, size_bytes: int) -> bytes | None:
    """A piece of a payload, shorter at its end; None when it is not there."""
    row = db.execute("SELECT size_bytes FROM payloads WHERE number = ?", (number,)).fetchone()
    if row is None:
        return None
    with db.blobopen("payloads", "data", number, readonly=True) as blob:
        blob.seek(min(offset_bytes, len(blob)))
        return blob.read(size_bytes)


def stored(row: Sequence[Any]) -> StoredPayload | None:
    """A payload from its COLUMNS; None if the checksum is wrong, or there is nothing that could have one."""
    *told, crc = row
    whole = len(told) == len(_KINDS) and all(map(isinstance, told, _KINDS))
    if not whole or (crc is not None and crc != payload_crc(told)):
        return None
    number, run, stream, seq, priority, born_us, sha256, size_bytes, codec, quality, width, height, *rest = (
        told
    )
    bits, channels, source_width, source_height, hard = rest
    if not 0 <= priority < len(PRIORITIES) or len(sha256) != _SHA256_BYTES:
        return None
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
