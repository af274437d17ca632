"""What a damaged outbox file still tells: its numbers, its runs, every record that is whole, and payloads.

A record counts as whole when its checksum says so; one of format 1, which had none, is taken at its word. A payload is
what its SHA-256 says. Reading goes from both ends, since a damaged page stops a scan where it lies, and keeps little in
memory at a time. Payloads end at a bound: answers wait meanwhile, and a dying card need not keep each twice.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from edge.outbox.file import payload_rows, rows
from edge.outbox.file.schema import read_ledger
from edge.outbox.payload import StoredPayload
from edge.outbox.store import Stored, Watermark
from pipelines.result import PRIORITIES, Gap, GapReason

LOST = "outbox set aside"
CHUNK = 256
PAYLOAD_BYTES = 32 << 20
"""Of payloads that are saved, the most important first."""

_ERRORS = (sqlite3.Error, ValueError, TypeError, OverflowError)


@dataclass(slots=True)
class Remains:
    """`ledger` is empty if it cannot be believed; `records` and `payloads` of it were pending."""

    path: Path
    ledger: dict[str, int] = field(default_factory=dict)
    marks: list[Watermark] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    records: int = 0
    payloads: int = 0

    def losses(self) -> list[Gap]:
        """The cloud may miss any of these frames now; where it has the record, the record outranks the gap."""
        return [
            Gap(
                run=m.run, stream=m.stream, first=1, last=m.settled, reason=GapReason.INTERRUPTED, detail=LOST
            )
            for m in self.marks
            if m.settled > 0
        ]


def remains(path: Path) -> Remains:
    """Everything but records and payloads; nothing of what cannot be read."""
    found = Remains(path)
    with suppress(*_ERRORS), _opened(path) as db:
        with suppress(*_ERRORS):
            found.ledger = read_ledger(db)
        with suppress(*_ERRORS):
            for row in db.execute(f"SELECT {rows.MARK} FROM runs"):
                found.marks.append(rows.watermark(row))
        with suppress(*_ERRORS):
            for row in db.execute(f"SELECT {rows.GAP} FROM gaps ORDER BY number"):
                found.gaps.append(rows.stored_gap(row).gap)
    return found


def records(path: Path) -> Iterator[list[Stored]]:
    """Whole records in chunks, their numbers those of the damaged file."""
    with suppress(*_ERRORS), _opened(path) as db:
        checked = any(row[1] == "crc" for row in db.execute("PRAGMA table_info(records)"))
        select = f"SELECT {rows.STORED if checked else rows.STORED.replace('crc', 'NULL')} FROM records"
        reached = 0
        forward = _whole(db, f"{select} ORDER BY entry")
        while chunk := list(islice(forward, CHUNK)):
            reached = max(reached, *(stored.number for stored in chunk))
            yield chunk
        backward = _whole(db, f"{select} WHERE entry > {reached} ORDER BY entry DESC")
        while chunk := list(islice(backward, CHUNK)):
            yield chunk


def payloads(path: Path) -> Iterator[tuple[StoredPayload, bytes]]:
    """Whole payloads with their data, their numbers those of the damaged file; PAYLOAD_BYTES of them, or one more."""
    left_bytes = PAYLOAD_BYTES
    with suppress(*_ERRORS), _opened(path) as db:
        checked = any(row[1] == "crc" for row in db.execute("PRAGMA table_info(payloads)"))
        columns = payload_rows.COLUMNS if checked else payload_rows.COLUMNS.replace("crc", "NULL")
        for priority in reversed(range(len(PRIORITIES))):
            # The plus keeps SQLite from an index, which may be what is damaged.
            select = f"SELECT {columns}, data FROM payloads WHERE +priority = {priority}"
            reached = 0
            for order in ("number", "number DESC"):
                for stored, data in _whole_payloads(db, f"{select} AND number > {reached} ORDER BY {order}"):
                    reached = stored.number if order == "number" else reached
                    left_bytes -= len(data)
                    yield stored, data
                    if left_bytes <= 0:
                        return


def _whole_payloads(db: sqlite3.Connection, select: str) -> Iterator[tuple[StoredPayload, bytes]]:
    with suppress(*_ERRORS):
        for *row, data in db.execute(select):
            stored = payload_rows.stored(row)
            whole = stored is not None and isinstance(data, bytes) and len(data) == stored.size_bytes
            if stored is not None and whole and hashlib.sha256(data).digest() == stored.shown.sha256:
                yield stored, data


def _whole(db: sqlite3.Connection, select: str) -> Iterator[Stored]:
    with suppress(*_ERRORS):
        for row in db.execute(select):
            stored = rows.stored(row)
            if stored is not None:
                yield replace(stored, priority=min(max(stored.priority, 0), len(PRIORITIES) - 1))


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.2)) as db:
        # Nothing is written: else a file cut short cannot be read at all.
        db.execute("PRAGMA writable_schema = ON")
        yield db
