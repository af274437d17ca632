"""The outbox as a SQLite file: the store a gateway trusts its answers to.

One connection, used by one thread, opened when it is needed: a disk that was away, full or read-only raises
Retryable, and the next call tries again. A damaged file is moved to `outbox.db.damaged-N`; a new file goes on with
the same ledger and what is still whole of its rows, and the others are counted as set aside. Committed data
survives kill −9; with `durability="power"` `sync` makes it survive a power cut too.
"""

import errno
import logging
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeVar

from edge.outbox.bounds import Bounds, Ledger, Tally
from edge.outbox.file import payload_rows, rows, salvage, schema
from edge.outbox.file.heritage import Heir, charged
from edge.outbox.file.storage import DiskStorage, Storage
from edge.outbox.file.transaction import Transaction
from edge.outbox.payload import StoredPayload
from edge.outbox.store import PRIORITY_NUMBERS as PRIORITIES
from edge.outbox.store import Changes, Key, Stored, StoredGap, Watermark, within
from pipelines.errors import Retryable

log = logging.getLogger(__name__)

T = TypeVar("T")

WAL_CHECKPOINT_BYTES = 4 << 20
RESERVE_BYTES = 6 << 20
WAL_FRAME_BYTES = 24  # what stands before each page in a WAL
VACUUM_PAGES = 256  # free pages that are worth giving back
VACUUM_AT_MOST_PAGES = 4096  # moved in one go, so that no commit waits long behind it


class SqliteOutbox:
    """An `OutboxStore`. `max_pages` bounds the file as a full disk would (SQLITE_FULL)."""

    def __init__(
        self,
        path: Path,
        *,
        durability: Literal["process", "power"] = "process",
        bounds: Bounds | None = None,
        max_pages: int | None = None,
        storage: Storage | None = None,
    ) -> None:
        self.path = path
        self._storage = storage or DiskStorage()
        self._durability = durability
        self._bounds = bounds or Bounds()
        self._max_pages = max_pages
        self._db: sqlite3.Connection | None = None
        self._wal_bytes = 0
        self._checkpoint_at = WAL_CHECKPOINT_BYTES
        self._shrunk = False  # since it was tidied last
        self._tally = Tally()
        self._heritage: salvage.Remains | None = None  # of a file just set aside
        self._opened_us: int | None = None
        self._uptime_at_open_us = 0

    def open(self, now_us: int) -> None:
        self._guarded(lambda _: None, now_us)

    def commit(self, changes: Changes, now_us: int) -> None:
        def work(db: sqlite3.Connection) -> None:
            if changes.entries or changes.payloads:
                self._leave_room(db)
            Transaction(db, self._tally, self._bounds, self.uptime_us(now_us)).run(changes)

        kept_bytes = self._tally.get("bytes")
        self._guarded(work, now_us)
        self._shrunk |= self._tally.get("bytes") < kept_bytes
        self._count_written()

    def peek(self, *, limit: int, max_bytes: int, exclude: Collection[int] = ()) -> Sequence[Stored]:
        def read(db: sqlite3.Connection) -> list[Stored]:
            found, rotten = rows.peek(db, reversed(PRIORITIES), limit=limit, exclude=exclude)
            if not found and not rotten and self._tally.get("pending") > len(exclude):
                raise schema.DamagedError("an index has lost records that are there")
            self._discard(db, Changes(unreadable=rotten))
            return within(found, limit=limit, max_bytes=max_bytes)

        return self._guarded(read)

    def find(self, key: Key) -> Stored | None:
        def read(db: sqlite3.Connection) -> Stored | None:
            where = "WHERE run = ? AND stream = ? AND seq = ?"
            row = db.execute(f"SELECT {rows.STORED} FROM records {where}", key).fetchone()
            stored = None if row is None else rows.stored(row)
            if row is not None and stored is None:
                self._discard(db, Changes(unreadable=[row[0]]))
            return stored

        return self._guarded(read)

    def gaps(self, *, limit: int, exclude: Collection[int] = ()) -> Sequence[StoredGap]:
        def read(db: sqlite3.Connection) -> list[StoredGap]:
            oldest = db.execute(
                f"SELECT {rows.GAP} FROM gaps ORDER BY number LIMIT ?",
                (limit + len(exclude),),
            )
            return [rows.stored_gap(row) for row in oldest if row[0] not in exclude][:limit]

        return self._guarded(read)

    def payloads(self, *, limit: int, exclude: Collection[int] = ()) -> Sequence[StoredPayload]:
        def read(db: sqlite3.Connection) -> list[StoredPayload]:
            found, rotten = payload_rows.peek(db, reversed(PRIORITIES), limit=limit, exclude=exclude)
            if not found and not rotten and self._tally.get("payloads_pending") > len(exclude):
                raise schema.DamagedError("an index has lost payloads that are there")
            self._discard(db, Changes(unreadable_payloads=rotten))
            return found

        return self._guarded(read)

    def read_payload(self, number: int, *, offset_bytes: int, size_bytes: int) -> bytes | None:
        return self._guarded(
            lambda db: payload_rows.read(db, number, offset_bytes=offset_bytes, size_bytes=size_bytes)
        )

    def runs(self) -> Sequence[Watermark]:
        def read(db: sqlite3.Connection) -> list[Watermark]:
            marks = db.execute(f"SELECT {rows.MARK} FROM runs ORDER BY run, stream")
            return [rows.watermark(row) for row in marks]

        return self._guarded(read)

    def uptime_us(self, now_us: int) -> int:
        since = 0 if self._opened_us is None else now_us - self._opened_us
        return self._uptime_at_open_us + since

    def ledger(self) -> Ledger:
        return self._tally.ledger()

    def sync(self) -> None:
        if self._durability == "process" or self._db is None:
            return
        try:
            self._storage.sync(self.path)
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
        self.let_go()
        self._opened_us = None

    # -- a connection when it is needed -------------------------------------------------------------------

    def _guarded(self, work: Callable[[sqlite3.Connection], T], now_us: int | None = None) -> T:
        """`work` on an open file; a damaged one is set aside and `work` done again on the new one, once."""
        try:
            try:
                return work(self._connection(now_us))
            except (sqlite3.Error, UnicodeDecodeError) as error:
                if isinstance(error, sqlite3.Error) and not schema.is_damage(error):
                    raise
                self._set_aside(error)
                return work(self._connection(now_us))
        except sqlite3.Error as error:
            if not schema.keeps_connection(error):
                self.let_go()
            raise Retryable(f"outbox {self.path}: {error}") from error
        except OSError as error:
            raise Retryable(f"outbox {self.path}: {error}") from error

    def _connection(self, now_us: int | None) -> sqlite3.Connection:
        if self._db is None:
            db = self._storage.connect(self.path, max_pages=self._max_pages)
            try:
                self._tally = self._loaded(db)
                self._inherit(db)
            except BaseException:
                db.close()
                raise
            self._db = db
            self._wal_bytes = self._storage.wal_bytes(self.path)
            self._checkpoint_at = self._most_wal_bytes()
        if self._opened_us is None and now_us is not None:
            self._opened_us = now_us
            self._uptime_at_open_us = self._tally.get("uptime_us")
        return self._db

    @staticmethod
    def _loaded(db: sqlite3.Connection) -> Tally:
        tally = Tally(schema.read_ledger(db) | schema.count_rows(db))
        records, payloads = tally.ledger().balance, tally.ledger().payload_balance
        if records or payloads:
            raise schema.DamagedError(f"its law is off by {records} records, {payloads} payloads")
        return tally

    def _inherit(self, db: sqlite3.Connection) -> None:
        """Go on with the ledger of a file that was set aside and what can be saved of it."""
        if self._heritage is None:
            return
        heir = Heir(db, self._tally, self._bounds, self._heritage, lambda: self._leave_room(db))
        heir.accept()
        self._heritage = None  # from here on what is not taken over counts as set aside
        heir.save()

    def _set_aside(self, error: Exception) -> None:
        known = dict(self._tally.values)
        self.let_go()
        aside = self._storage.set_aside(self.path)
        log.error("outbox %s cannot be used and is now %s: %s", self.path, aside.name, error)
        self._heritage = charged(salvage.remains(aside), known)
        self._tally = Tally(dict(self._heritage.ledger))

    def _discard(self, db: sqlite3.Connection, rotten: Changes) -> None:
        """Rows whose checksum is wrong: counted as set aside and explained; where that fails, the next time."""
        if not rotten:
            return
        count = len(rotten.unreadable) + len(rotten.unreadable_payloads)
        log.error("outbox %s: %d rows were damaged where they lay", self.path, count)
        try:
            Transaction(db, self._tally, self._bounds, self._tally.get("uptime_us")).run(rotten)
        except sqlite3.Error as error:
            if schema.is_damage(error):
                raise

    def let_go(self) -> None:
        """Leave the file as it lies, as a kill would; whatever comes next opens it again. Never raises."""
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    # -- space and wear -----------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Give freed pages back and keep the WAL short: 10 ms and more, of which no answer should know. Trouble here
        undoes nothing."""
        if self._db is None:
            return
        if self._shrunk:
            self._shrunk = False
            with suppress(sqlite3.Error):
                self._give_space_back(self._db, at_least_pages=VACUUM_PAGES)
            self._count_written()
        if self._wal_bytes >= self._checkpoint_at:
            with suppress(sqlite3.Error):
                self._checkpoint(self._db)

    def _count_written(self) -> None:
        """What the WAL has grown by since this was asked last."""
        size = self._storage.wal_bytes(self.path)
        self._tally.add("flash_bytes_written", size - self._wal_bytes if size >= self._wal_bytes else size)
        self._wal_bytes = size

    def _give_space_back(self, db: sqlite3.Connection, *, at_least_pages: int) -> None:
        if db.execute("PRAGMA freelist_count").fetchone()[0] >= at_least_pages:
            # It yields a row without columns per page, after the first of which `execute` would stop.
            db.executescript(f"PRAGMA incremental_vacuum({VACUUM_AT_MOST_PAGES});")

    def _leave_room(self, db: sqlite3.Connection) -> None:
        """Rows are not written into the last of a disk: what gives space back needs some to be written first."""
        room = self._storage.room(self.path)
        reserve_bytes = min(RESERVE_BYTES, room.total // 8)
        if room.free >= reserve_bytes:
            return
        if self._wal_bytes:
            with suppress(sqlite3.Error):
                self._checkpoint(db)
            if self._storage.room(self.path).free >= reserve_bytes:
                return
        raise OSError(
            errno.ENOSPC,
            f"the disk is full: {room.free // 1024} KiB are free, {reserve_bytes // 1024} are kept free",
        )

    def _checkpoint(self, db: sqlite3.Connection) -> None:
        """Move the WAL into the file. A reader in the way is not waited for: it is tried again when as much is new."""
        pages = int(db.execute("PRAGMA page_count").fetchone()[0])
        page_bytes = int(db.execute("PRAGMA page_size").fetchone()[0])
        frames = self._wal_bytes // (page_bytes + WAL_FRAME_BYTES)
        db.execute("PRAGMA busy_timeout = 0")
        busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        db.execute("PRAGMA busy_timeout = 200")
        if not busy:
            self._tally.add("flash_bytes_written", min(frames, pages) * page_bytes)  # each page once
        self._wal_bytes = self._storage.wal_bytes(self.path)
        self._checkpoint_at = self._wal_bytes + self._most_wal_bytes()

    def _most_wal_bytes(self) -> int:
        """A small disk has no room for the WAL's copy of everything."""
        return min(WAL_CHECKPOINT_BYTES, self._storage.room(self.path).total // 16)
