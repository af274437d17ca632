"""A look at an outbox file beside the agent that uses it: one moment of it, nothing changed."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edge.kept_name import kept_name
from edge.outbox.bounds import Ledger, Tally
from edge.outbox.file import payload_rows, rows, schema
from edge.outbox.payload import StoredPayload
from edge.outbox.store import Key, Stored, StoredGap
from nearfar.outbox.selection import Selection
from pipelines.errors import ConfigError
from pipelines.result import PRIORITIES

_WORTH = "ORDER BY priority DESC, born_us"


def file_of(path: Path) -> Path:
    """The file that `path` means: an agent's state_dir, or the file itself."""
    path = path.resolve()  # a link leads to the file whose agent has the lock and the log beside it
    return path / schema.FILE_NAME if path.is_dir() else path


@contextmanager
def looking(path: Path) -> Iterator["OutboxView"]:
    """ConfigError in words for what is no outbox, or a damaged one."""
    file = file_of(path)
    db = schema.connect_read_only(file)
    try:
        db.execute("BEGIN")  # all that is read belongs to one moment
        yield OutboxView(file, db)
    except (sqlite3.Error, TypeError, ValueError) as error:
        raise ConfigError(f"{file} {schema.UNREADABLE}: {error}") from error
    finally:
        db.close()


@dataclass(slots=True)
class OutboxView:
    file: Path
    db: sqlite3.Connection

    @property
    def uptime_us(self) -> int:
        return int(self.db.execute("SELECT uptime_us FROM ledger").fetchone()[0])

    @property
    def file_bytes(self) -> int:
        """On disk, with what SQLite keeps beside the file until it is moved into it."""
        beside = [self.file.with_name(self.file.name + end) for end in ("", "-wal", "-shm", "-journal")]
        return sum(path.stat().st_size for path in beside if path.exists())

    @property
    def waits(self) -> bool:
        """Whether a record, a gap or a picture is to go up, or a run ended without a word about its last frames."""
        ledger = self.ledger()
        unexplained = self.db.execute("SELECT count(*) FROM runs WHERE reserved > settled").fetchone()[0]
        return bool(ledger.pending or ledger.gaps or ledger.payloads_pending or unexplained)

    def ledger(self) -> Ledger:
        """The numbers of the file as they stand there, and its rows counted."""
        numbers = schema.read_ledger(self.db, check=False) | schema.count_rows(self.db, older=True)
        return Tally(numbers).ledger()

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

    def count_payloads(self, selection: Selection) -> int:
        return len(self.payload_numbers(selection))

    def numbers(self, selection: Selection) -> list[int]:
        where, values = selection.where(self.uptime_us)
        return [n for (n,) in self.db.execute(f"SELECT entry FROM records{where} ORDER BY entry", values)]

    def payload_numbers(self, selection: Selection) -> list[int]:
        if not self._payload_columns():
            return []
        where, values = selection.where(self.uptime_us)
        return [n for (n,) in self.db.execute(f"SELECT number FROM payloads{where} ORDER BY number", values)]

    def records(self, selection: Selection, *, limit: int = -1) -> Iterator[Stored | None]:
        """What goes next first; None for a record that is damaged where it lies."""
        where, values = selection.where(self.uptime_us)
        checked = any(row[1] == "crc" for row in self.db.execute("PRAGMA table_info(records)"))
        columns = rows.STORED if checked else rows.STORED.replace("crc", "NULL")
        select = f"SELECT {columns} FROM records{where} {_WORTH}, entry LIMIT ?"
        return (rows.stored(row) for row in self.db.execute(select, [*values, limit]))

    def refused(self, selection: Selection, *, limit: int = -1) -> Iterator[tuple[Stored | None, str]]:
        """Records that a worker could not read, the oldest first, with what it said."""
        if not self._has_refused():
            return iter(())
        where, values = selection.where(self.uptime_us)
        select = f"SELECT {rows.STORED}, reason FROM refused{where} ORDER BY born_us, entry LIMIT ?"
        found = self.db.execute(select, [*values, limit])
        return ((rows.stored(tuple(row)), str(why)) for *row, why in found)

    def refused_numbers(self, selection: Selection) -> list[int]:
        if not self._has_refused():
            return []
        where, values = selection.where(self.uptime_us)
        return [n for (n,) in self.db.execute(f"SELECT entry FROM refused{where} ORDER BY entry", values)]

    def payloads(self, selection: Selection, *, limit: int = -1) -> Iterator[StoredPayload | None]:
        """Without their data, in the order they go; None for one that is damaged where it lies."""
        if not (columns := self._payload_columns()):
            return iter(())
        where, values = selection.where(self.uptime_us)
        select = f"SELECT {columns} FROM payloads{where} {_WORTH}, number LIMIT ?"
        return (payload_rows.stored(row) for row in self.db.execute(select, [*values, limit]))

    def payload_of(self, key: Key) -> StoredPayload | None:
        if not (columns := self._payload_columns()):
            return None
        where = "WHERE run = ? AND stream = ? AND seq = ?"
        row = self.db.execute(f"SELECT {columns} FROM payloads {where}", key).fetchone()
        return None if row is None else payload_rows.stored(row)

    def _has_refused(self) -> bool:
        """Files of older versions have no such table."""
        return bool(self.db.execute("PRAGMA table_info(refused)").fetchall())

    def _payload_columns(self) -> str:
        """As this file has them; empty if it is older than payloads are."""
        there = {row[1] for row in self.db.execute("PRAGMA table_info(payloads)")}
        if not there:
            return ""
        return payload_rows.COLUMNS if "crc" in there else payload_rows.COLUMNS.replace("crc", "NULL")

    def gaps(self, selection: Selection, *, limit: int = -1) -> Iterator[StoredGap]:
        if not selection.suits_gaps:
            return iter(())
        where, values = selection.where(self.uptime_us)
        select = f"SELECT {rows.GAP} FROM gaps{where} ORDER BY number LIMIT ?"
        return (rows.stored_gap(row) for row in self.db.execute(select, [*values, limit]))

    def agent(self) -> str:
        """As kept beside the file; empty if it is not."""
        return kept_name(self.file.parent)
