"""Rows of the outbox file as values. SQLite keeps any type in any column, a damaged file all the more: what is not
what it should be is told from what is.
"""

import sqlite3
from collections.abc import Collection, Iterable
from typing import Any

from edge.outbox.file.schema import DamagedError, record_crc
from edge.outbox.store import Stored, StoredGap, Watermark
from pipelines.result import Gap, GapReason

STORED = "entry, run, stream, seq, priority, born_us, data, crc"
GAP = "number, run, stream, first, last, reason, detail"
MARK = "run, stream, reserved, settled"

_REASONS = frozenset(GapReason)


def stored(row: tuple[Any, ...]) -> Stored | None:
    """A record from its STORED columns; None if the checksum is wrong, or there is nothing that could have one."""
    number, run, stream, seq, priority, born_us, data, crc = row
    whole = _are(bytes, run, data) and _are(str, stream) and _are(int, seq, priority, born_us)
    if not whole or (crc is not None and crc != record_crc(run, stream, seq, data)):
        return None
    return Stored(number=number, key=(run, stream, seq), priority=priority, born_us=born_us, data=data)


def peek(
    db: sqlite3.Connection, priorities: Iterable[int], *, limit: int, exclude: Collection[int]
) -> tuple[list[Stored], list[int]]:
    """Records by `priorities`, each of them the oldest first, at least `limit` if there are; and numbers of damaged ones."""
    found: list[Stored] = []
    rotten: list[int] = []
    for priority in priorities:
        worthiest = db.execute(
            f"SELECT {STORED} FROM records WHERE priority = ? ORDER BY born_us, entry LIMIT ?",
            (priority, limit + len(exclude)),
        )
        for row in worthiest:
            record = stored(row)
            if record is None:
                rotten.append(row[0])
            elif record.number not in exclude:
                found.append(record)
        if len(found) >= limit:
            break
    return found, rotten


def stored_gap(row: tuple[Any, ...]) -> StoredGap:
    """A gap from its GAP columns; may raise DamagedError."""
    number, run, stream, first, last, reason, detail = row
    names = _are(bytes, run) and _are(str, stream, detail) and _are(int, first, last) and reason in _REASONS
    if not names or not 0 < first <= last:
        raise DamagedError("a gap that names nothing")
    gap = Gap(run=run, stream=stream, first=first, last=last, reason=GapReason(reason), detail=detail)
    return StoredGap(number, gap)


def watermark(row: tuple[Any, ...]) -> Watermark:
    """A watermark from its MARK columns; may raise DamagedError."""
    run, stream, reserved, settled = row
    if not (_are(bytes, run) and _are(str, stream) and _are(int, reserved, settled)):
        raise DamagedError("a watermark that marks nothing")
    return Watermark(run=run, stream=stream, reserved=reserved, settled=settled)


def _are(kind: type, *values: object) -> bool:
    return all(isinstance(value, kind) for value in values)
