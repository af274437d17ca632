"""What a damaged outbox file still tells: its numbers, its runs, and every record that is whole.

A record counts as whole when its checksum says so; one of format 1, which had none, is taken at its word. Reading
goes from both ends, since a damaged page stops a scan where it lies, and keeps little in memory at a time.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from edge.outbox import rows
from edge.outbox.schema import read_ledger
from edge.outbox.store import Stored, Watermark
from pipelines.result import PRIORITIES, Gap, GapReason

LOST = "outbox set aside"
CHUNK = 256
_ERRORS = (sqlite3.Error, ValueError, TypeError, OverflowError)


@dataclass(slots=True)
class Remains:
    """`ledger` is empty if it cannot be believed; `records` of it were pending."""

    path: Path
    ledger: dict[str, int] = field(default_factory=dict)
    marks: list[Watermark] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    records: int = 0

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
    """Everything but the records; nothing of what cannot be read."""
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


def _whole(db: sqlite3.Connection, select: str) -> Iterator[Stored]:
    with suppress(*_ERRORS):
        for row in db.execute(select):
            stored = rows.stored(row)
            if stored is not None:
                yield replace(stored, priority=min(max(stored.priority, 0), len(PRIORITIES) - 1))


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.2)) as db:
        db.execute(
            "PRAGMA writable_schema = ON"
        )  # nothing is written: else a file cut short cannot be read at all
        yield db
