"""New records on their way into the outbox file: whether each is surely new, its row, and many rows to a statement.

One INSERT of 64 rows costs SQLite two thirds of 64 INSERTs of one. The loop here is the one over every record that
is written: what it does, it does for each answer of a gateway, so it is kept tight. Runs inside whatever transaction
the caller has begun.
"""

import sqlite3
import zlib
from collections.abc import Callable, Sequence

from edge.outbox.file.schema import stream_crc
from edge.outbox.store import Entry

Value = int | bytes | str

COLUMNS = ("entry", "run", "stream", "seq", "priority", "born_us", "data", "crc")
_WIDTH = len(COLUMNS)
_ROW = f"({', '.join('?' * _WIDTH)})"


def insert_of(rows: int) -> str:
    """An INSERT of so many rows. A contradiction ends the transaction, so SQLite keeps nothing to undo a part of it."""
    return f"INSERT OR ROLLBACK INTO records ({', '.join(COLUMNS)}) VALUES {', '.join([_ROW] * rows)}"


_STATEMENTS = tuple((rows, insert_of(rows)) for rows in (64, 8, 1))


def new_rows(
    entries: Sequence[Entry], *, number: int, uptime_us: int, highest: Callable[[bytes, str], int]
) -> list[Value] | None:
    """The values of the rows of `entries`, one row after the other, numbered from `number`; None if one of them may be
    there already. `highest`: the highest seq that is kept of a run and stream, 0 if none."""
    values: list[Value] = []
    tops: dict[tuple[bytes, str], int] = {}
    run, stream, top, stream_sum = b"", "", -1, 0
    begun = False
    crc32 = zlib.crc32
    for entry in entries:
        key = entry.key
        if not begun or key[1] != stream or key[0] != run:
            if begun:
                tops[(run, stream)] = top
            begun = True
            run, stream, _ = key
            stream_sum = stream_crc(run, stream)
            top = tops[(run, stream)] if (run, stream) in tops else highest(run, stream)
        seq = key[2]
        if seq <= top:
            return None
        top = seq
        data = entry.data
        crc = crc32(data, crc32(b"%d" % seq, stream_sum))  # schema.record_crc
        values += (number, run, stream, seq, entry.priority, uptime_us - entry.age_us, data, crc)
        number += 1
    return values


def insert(db: sqlite3.Connection, values: Sequence[Value]) -> None:
    """Put in rows as `new_rows` gives them."""
    at, end = 0, len(values)
    for rows, statement in _STATEMENTS:
        step = rows * _WIDTH
        while end - at >= step:
            db.execute(statement, values[at : at + step])
            at += step
