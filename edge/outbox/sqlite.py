"""The outbox as a SQLite file: the store a gateway trusts its answers to.

One connection, used by one thread, opened when it is needed: a disk that was away, full or read-only raises
Retryable, and the next call tries again. A damaged file is moved to `outbox.db.damaged-N`, its records are
counted as set aside (from the last ledger known), and a new file goes on with the same ledger. Committed data
survives kill −9; with `durability="power"` `sync` makes it survive a power cut too.
"""

import os
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeVar

from edge.outbox import payload_rows, schema
from edge.outbox.bounds import Bounds, Ledger, Tally
from edge.outbox.payload import StoredPayload
from edge.outbox.store import PRIORITY_NUMBERS as PRIORITIES
from edge.outbox.store import Changes, Key, Stored, StoredGap, Watermark, within
from edge.outbox.transaction import Transaction
from pipelines.errors import Retryable
from pipelines.result import Gap, GapReason

T = TypeVar("T")

WAL_CHECKPOINT_BYTES = 4 << 20
VACUUM_PAGES = 64  # free pages that are worth giving back
VACUUM_AT_MOST_PAGES = 1024  # moved in one go, so that no commit waits long behind it
_STORED = "entry, run, stream, seq, priority, born_us, data"


class SqliteOutbox:
    """An `OutboxStore`. `max_pages` bounds the file as a full disk would (SQLITE_FULL)."""

    def __init__(
        self,
        path: Path,
        *,
        durability: Literal["process", "power"] = "process",
        bounds: Bounds | None = None,
        max_pages: int | None = None,
    ) -> None:
        self.path = path
        self._durability = durability
        self._bounds = bounds or Bounds()
        self._max_pages = max_pages
        self._db: sqlite3.Connection | None = None
        self._wal = path.with_name(path.name + "-wal")
        self._wal_bytes = 0
        self._tally = Tally()
        self._inherited: tuple[dict[str, int], list[Gap]] | None = None  # of a file just set aside
        self._opened_us: int | None = None
        self._uptime_at_open_us = 0

    def open(self, now_us: int) -> None:
        self._guarded(lambda _: None, now_us)

    def commit(self, changes: Changes, now_us: int) -> None:
        def work(db: sqlite3.Connection) -> None:
            Transaction(db, self._tally, self._bounds, self.uptime_us(now_us)).run(changes)

        self._guarded(work, now_us)
        self._tidy()

    def peek(self, *, limit: int, max_bytes: int, exclude: Collection[int] = ()) -> Sequence[Stored]:
        def read(db: sqlite3.Connection) -> list[Stored]:
            found: list[Stored] = []
            for priority in reversed(PRIORITIES):
                rows = db.execute(
                    f"SELECT {_STORED} FROM records WHERE priority = ? ORDER BY born_us, entry LIMIT ?",
                    (priority, limit + len(exclude)),
                )
                found += [s for s in map(_stored, rows) if s.number not in exclude]
                if len(found) >= limit:
                    break
            return within(found, limit=limit, max_bytes=max_bytes)

        return self._guarded(read)

    def find(self, key: Key) -> Stored | None:
        def read(db: sqlite3.Connection) -> Stored | None:
            where = "WHERE run = ? AND stream = ? AND seq = ?"
            row = db.execute(f"SELECT {_STORED} FROM records {where}", key).fetchone()
            return None if row is None else _stored(row)

        return self._guarded(read)

    def gaps(self, *, limit: int, exclude: Collection[int] = ()) -> Sequence[StoredGap]:
        def read(db: sqlite3.Connection) -> list[StoredGap]:
            rows = db.execute(
                "SELECT number, run, stream, first, last, reason, detail FROM gaps ORDER BY number LIMIT ?",
                (limit + len(exclude),),
            )
            return [_stored_gap(row) for row in rows if row[0] not in exclude][:limit]

        return self._guarded(read)

    def payloads(self, *, limit: int, exclude: Collection[int] = ()) -> Sequence[StoredPayload]:
        return self._guarded(
            lambda db: payload_rows.peek(db, reversed(PRIORITIES), limit=limit, exclude=exclude)
        )

    def read_payload(self, number: int, *, offset_bytes: int, size_bytes: int) -> bytes | None:
        return self._guarded(
            lambda db: payload_rows.read(db, number, offset_bytes=offset_bytes, size_bytes=size_bytes)
        )

    def runs(self) -> Sequence[Watermark]:
        def read(db: sqlite3.Connection) -> list[Watermark]:
            rows = db.execute("SELECT run, stream, reserved, settled FROM runs ORDER BY run, stream")
            return [Watermark(run=r, stream=s, reserved=high, settled=low) for r, s, high, low in rows]

        return self._guarded(read)

    def uptime_us(self, now_us: int) -> int:
        since = 0 if self._opened_us is None else now_us - self._opened_us
        return self._uptime_at_open_us + since

    def ledger(self) -> Ledger:
        return self._tally.ledger()

    def sync(self) -> None:
        if self._durability == "process" or self._db is None:
            return
        # A second descriptor of the WAL is safe to close: SQLite's locks are on the -shm and the main file.
        try:
            descriptor = os.open(self._wal, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise Retryable(f"outbox {self.path}: cannot sync: {error}") from error

    def close(self, now_us: int) -> None:
        if self._db is not None:
            with suppress(Retryable):
                self.commit(Changes(), now_us)
            with suppress(Retryable):
                self.sync()
            with suppress(sqlite3.Error):
                self._give_space_back(self._db, at_least_pages=1)
                self._checkpoint(self._db)
        self._drop_connection()
        self._opened_us = None

    # -- a connection when it is needed -------------------------------------------------------------------

    def _guarded(self, work: Callable[[sqlite3.Connection], T], now_us: int | None = None) -> T:
        """`work` on an open file; a damaged one is set aside and `work` done again on the new one, once."""
        try:
            try:
                return work(self._connection(now_us))
            except sqlite3.Error as error:
                if not schema.is_damage(error):
                    raise
                self._set_aside()
                return work(self._connection(now_us))
        except sqlite3.Error as error:
            if not schema.keeps_connection(error):
                self._drop_connection()
            raise Retryable(f"outbox {self.path}: {error}") from error
        except OSError as error:
            raise Retryable(f"outbox {self.path}: {error}") from error

    def _connection(self, now_us: int | None) -> sqlite3.Connection:
        if self._db is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            db = schema.connect(self.path, max_pages=self._max_pages)
            try:
                self._load(db)
                self._inherit(db)
            except BaseException:
                db.close()
                raise
            self._db = db
            self._wal_bytes = self._wal_size()
        if self._opened_us is None and now_us is not None:
            self._opened_us = now_us
            self._uptime_at_open_us = self._tally.get("uptime_us")
        return self._db

    def _load(self, db: sqlite3.Connection) -> None:
        try:
            said = schema.read_ledger(db)
            pending, gaps, payloads = (
                int(db.execute(f"SELECT count(*) FROM {t}").fetchone()[0])
                for t in ("records", "gaps", "payloads")
            )
        except sqlite3.OperationalError as error:
            if "no such" in str(error):
                raise schema.DamagedError(f"not an outbox: {error}") from error
            raise
        if said is None:
            raise schema.DamagedError("not an outbox: its ledger is empty")
        self._tally = Tally({**said, "pending": pending, "gaps": gaps, "payloads_pending": payloads})

    def _inherit(self, db: sqlite3.Connection) -> None:
        """Go on with the ledger of a file that was set aside, in the new file's first transaction."""
        if self._inherited is None:
            return
        values, gaps = self._inherited
        nothing = dict.fromkeys(("bytes", "pending", "gaps", "payloads_pending", "payload_bytes"), 0)
        self._tally = Tally({**values, **nothing})
        Transaction(db, self._tally, self._bounds, values.get("uptime_us", 0)).run(Changes(gaps=gaps))
        self._inherited = None

    def _set_aside(self) -> None:
        loaded = self._tally.values
        salvaged, marks = schema.salvage(self.path)
        values = dict(loaded or salvaged)
        self._drop_connection()
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + suffix).rename(aside.with_name(aside.name + suffix))
        ledger = Tally({**values, "pending": 0, "payloads_pending": 0}).ledger()
        values["set_aside"] = ledger.set_aside + ledger.balance
        values["payloads_set_aside"] = ledger.payloads_set_aside + ledger.payload_balance
        values["set_aside_files"] = ledger.set_aside_files + 1
        # The cloud may miss any of these frames now; where it has the record, the record outranks the gap.
        lost = [
            Gap(run=r, stream=s, first=1, last=low, reason=GapReason.INTERRUPTED, detail="outbox set aside")
            for r, s, _, low in marks
            if low > 0
        ]
        self._inherited = (values, lost)
        self._tally = Tally(values)

    def _drop_connection(self) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    # -- space and wear -----------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """After a commit: give freed pages back and keep the WAL short. Trouble here undoes nothing."""
        if self._db is None:
            return
        with suppress(sqlite3.Error):
            self._give_space_back(self._db, at_least_pages=VACUUM_PAGES)
        size = self._wal_size()
        self._tally.add("flash_bytes_written", size - self._wal_bytes if size >= self._wal_bytes else size)
        self._wal_bytes = size
        if size >= WAL_CHECKPOINT_BYTES:
            with suppress(sqlite3.Error):
                self._checkpoint(self._db)

    def _give_space_back(self, db: sqlite3.Connection, *, at_least_pages: int) -> None:
        if db.execute("PRAGMA freelist_count").fetchone()[0] >= at_least_pages:
            # It yields a row without columns per page, after the first of which `execute` would stop.
            db.executescript(f"PRAGMA incremental_vacuum({VACUUM_AT_MOST_PAGES});")

    def _checkpoint(self, db: sqlite3.Connection) -> None:
        # TRUNCATE does not say how much it moved, PASSIVE does; a reader in the way only delays the truncation.
        done = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[2]
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        pages, page_bytes = (
            int(db.execute(f"PRAGMA {p}").fetchone()[0]) for p in ("page_count", "page_size")
        )
        self._tally.add("flash_bytes_written", min(max(0, done), pages) * page_bytes)  # each page once
        self._wal_bytes = self._wal_size()

    def _wal_size(self) -> int:
        try:
            return self._wal.stat().st_size
        except OSError:
            return 0


def _stored(row: tuple[int, bytes, str, int, int, int, bytes]) -> Stored:
    number, run, stream, seq, priority, born_us, data = row
    return Stored(number=number, key=(run, stream, seq), priority=priority, born_us=born_us, data=data)


def _stored_gap(row: tuple[int, bytes, str, int, int, str, str]) -> StoredGap:
    number, run, stream, first, last, reason, detail = row
    gap = Gap(run=run, stream=stream, first=first, last=last, reason=GapReason(reason), detail=detail)
    return StoredGap(number, gap)
