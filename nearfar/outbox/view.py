"""A look at an outbox file beside the agent that uses it: one moment of it, nothing changed."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.outbox import rows, schema
from edge.outbox.bounds import Ledger, Tally
from edge.outbox.store import Stored, StoredGap
from nearfar.outbox.selection import Selection
from pipelines.errors import ConfigError, Rejected
from pipelines.result import PRIORITIES, Gap, Record
from protos.wire import records as wire_records

_WORTH = "ORDER BY priority DESC, born_us, entry"


def file_of(path: Path) -> Path:
    """The file that `path` means: an agent's state_dir, or the file itself."""
    return path / schema.FILE_NAME if path.is_dir() else path


@contextmanager
def looking(path: Path) -> Iterator["OutboxView"]:
    """ConfigError in words for what is no outbox, or a damaged one."""
    file = file_of(path)
    db = schema.connect_read_only(file)
    try:
        db.execute("BEGIN")  # all that is read belongs to one moment
        yield OutboxView(file, db)
    except (sqlite3.Error, TypeError) as error:
        raise ConfigError(f"{file} cannot be read as an outbox: {error}") from error
    finally:
        db.close()


@dataclass(slots=True)
class OutboxView:
    file: Path
    db: sqlite3.Connection

    @property
    def uptime_us(self) -> int:
        return int(self.db.execute("SELECT uptime_us FROM ledger").fetchone()[0])

    def ledger(self) -> Ledger:
        """The numbers of the file as they stand there, and its rows counted."""
        tally = Tally(schema.read_ledger(self.db, check=False))
        for name, table in (("pending", "records"), ("gaps", "gaps")):
            tally.add(name, self.db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        return tally.ledger()

    def by_priority(self) -> dict[str, int]:
        found = dict(self.db.execute("SELECT priority, count(*) FROM records GROUP BY priority").fetchall())
        return {priority.value: found.get(n, 0) for n, priority in enumerate(PRIORITIES)}

    def oldest_us(self) -> int | None:
        """Uptime since the oldest record was captured."""
        born = self.db.execute("SELECT min(born_us) FROM records").fetchone()[0]
        return None if born is None else self.uptime_us - int(born)

    def count(self, selection: Selection) -> int:
        where, values = selection.where(self.uptime_us)
        return int(self.db.execute(f"SELECT count(*) FROM records{where}", values).fetchone()[0])

    def numbers(self, selection: Selection) -> list[int]:
        where, values = selection.where(self.uptime_us)
        return [n for (n,) in self.db.execute(f"SELECT entry FROM records{where} ORDER BY entry", values)]

    def records(self, selection: Selection, *, limit: int = -1) -> Iterator[Stored | None]:
        """What goes next first; None for a record that is damaged where it lies."""
        where, values = selection.where(self.uptime_us)
        checked = any(row[1] == "crc" for row in self.db.execute("PRAGMA table_info(records)"))
        columns = rows.STORED if checked else rows.STORED.replace("crc", "NULL")
        select = f"SELECT {columns} FROM records{where} {_WORTH} LIMIT ?"
        return (rows.stored(row) for row in self.db.execute(select, [*values, limit]))

    def gaps(self, selection: Selection, *, limit: int = -1) -> Iterator[StoredGap]:
        if not selection.suits_gaps:
            return iter(())
        where, values = selection.where(self.uptime_us)
        select = f"SELECT {rows.GAP} FROM gaps{where} ORDER BY number LIMIT ?"
        return (rows.stored_gap(row) for row in self.db.execute(select, [*values, limit]))

    def agent(self) -> str:
        """As kept beside the file; empty if it is not."""
        try:
            return self.file.with_name("agent").read_text().strip()
        except OSError:
            return ""


def decoded(stored: Stored, agent: str = "") -> Record | None:
    """None for data that no version of ours wrote."""
    try:
        return wire_records.decode(stored.data, agent)
    except Rejected:
        return None


def row_line(stored: Stored, uptime_us: int) -> dict[str, Any]:
    """A record in a list: what it is, and what it costs."""
    record = decoded(stored)
    run, stream, seq = stored.key
    return {
        "run": run.hex(),
        "stream": stream,
        "seq": seq,
        "answered_by": record.answered_by.value if record else "unreadable",
        "late_far": record.late_far if record else False,
        "priority": PRIORITIES[stored.priority].value,
        "age_s": round((uptime_us - stored.born_us) / 1e6, 3),
        "bytes": len(stored.data),
    }


def record_line(record: Record, age_us: int) -> dict[str, Any]:
    """A whole record for programs, by the names that `nearfar records` uses."""
    return {
        "kind": "record",
        "agent": record.id.agent,
        "run": record.id.run.hex(),
        "stream": record.id.stream,
        "seq": record.id.seq,
        "answered_by": record.answered_by.value,
        "status": record.status.value,
        "on_time": record.on_time,
        "latency_ms": record.latency_us / 1000,
        "captured_unix_ms": record.captured_unix_us / 1000,
        "age_ms": age_us / 1000,
        "late_far": record.late_far,
        "priority": record.priority.value,
        "model": record.model,
        "model_sha256": record.model_sha256,
        "detections": None if record.detections is None else record.detections.as_rows(),
        "timing_ms": {name: us / 1000 for name, us in record.timing_us.items()},
    }


def gap_line(gap: Gap, agent: str) -> dict[str, Any]:
    return {
        "kind": "gap",
        "agent": agent,
        "run": gap.run.hex(),
        "stream": gap.stream,
        "first": gap.first,
        "last": gap.last,
        "reason": gap.reason.value,
        "detail": gap.detail,
    }
