"""A shelf on disk: one SQLite file in WAL mode, so that what was committed survives kill −9.

A power cut may take the last commits, never the file. A damaged file is moved to `NAME.damaged-N`, one that somebody put
in its place while it was not open to `NAME.strange-N`; a new file goes on. What was on ours is counted in `set_aside`, by
the count kept beside the file; where there is none, what can still be read counts and the file is named in `uncounted`. A
disk that is full, read-only or away raises Retryable.
"""

import logging
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from edge.outbox.file.schema import is_damage, keeps_connection
from edge.sinks.delivery.parcel import OVERHEAD_BYTES, Parcel
from edge.sinks.delivery.spool_count import SpoolCount
from pipelines.errors import ConfigError, Retryable

log = logging.getLogger(__name__)

T = TypeVar("T")

FORMAT = 1
WAL_CHECKPOINT_BYTES = 1 << 20
VACUUM_BYTES = 1 << 20
UPTIME_EVERY_US = 1_000_000
"""How exactly a restart knows the age of what waits; writing it with every answer would wear the flash a third more."""

_TABLES = f"""
CREATE TABLE parcels (
    number INTEGER PRIMARY KEY,  -- rising, never reused
    born_us INTEGER NOT NULL,    -- uptime of this queue when it came
    id TEXT NOT NULL, stream TEXT NOT NULL, body BLOB NOT NULL
);
CREATE TABLE life (uptime_us INTEGER NOT NULL);
INSERT INTO life VALUES (0);
PRAGMA user_version = {FORMAT};
"""


class _StrangerError(sqlite3.DatabaseError):
    """The file at our path is the queue of somebody else."""


class SpoolFile:
    """A `Shelf`; its owner's lock lets any thread use it. `max_pages` bounds it as a full disk would.

    `uncounted` names damaged files of which nobody knows how much was on them. `inherited` parcels were on it when it
    was opened, or have come back with it. `flash_bytes` were written to the disk by this object. The constructor
    opens or makes the file and raises ConfigError when it cannot.
    """

    def __init__(self, path: Path, *, max_pages: int | None = None) -> None:
        self.path = path
        self._max_pages = max_pages
        self._db: sqlite3.Connection | None = None
        self._mark: int | None = None  # tells our file from any other, None before it was opened
        self.rows = 0
        self.bytes = 0
        self.inherited = 0
        self.uptime_us = 0
        self.last_number = 0
        self.set_aside = 0
        self.uncounted: tuple[str, ...] = ()
        self._count = SpoolCount(path)
        self.flash_bytes = 0
        self._wal_bytes = 0
        try:
            self._guarded(lambda _: None)
        except Retryable as error:
            raise ConfigError(f"{error}; mend that, or leave `durable` out of the sink") from error
        self.flash_bytes += self._count.keep(self.rows, uptime_us=self.uptime_us, at_once=True)

    def commit(self, *, add: Sequence[Parcel], upto: int, uptime_us: int) -> int:
        keep_uptime = uptime_us - self.uptime_us >= UPTIME_EVERY_US

        def work(db: sqlite3.Connection) -> tuple[int, int]:
            db.execute("BEGIN IMMEDIATE")
            try:
                gone = db.execute(
                    "DELETE FROM parcels WHERE number <= ? RETURNING length(body)", (upto,)
                ).fetchall()
                db.executemany(
                    "INSERT INTO parcels (number, born_us, id, stream, body) VALUES (?, ?, ?, ?, ?)",
                    [(p.number, p.born_us, p.id, p.stream, p.body) for p in add],
                )
                if keep_uptime:
                    db.execute("UPDATE life SET uptime_us = ?", (uptime_us,))
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                raise
            return len(gone), sum(size for (size,) in gone)

        removed, freed = self._guarded(work)
        self.rows += len(add) - removed
        self.bytes += sum(p.bytes for p in add) - freed - removed * OVERHEAD_BYTES
        if keep_uptime:
            self.uptime_us = uptime_us
        self._tidy()
        self.flash_bytes += self._count.keep(self.rows, uptime_us=uptime_us)
        return removed

    def peek(self, *, after: int, limit: int) -> Sequence[Parcel]:
        def read(db: sqlite3.Connection) -> list[Parcel]:
            found = db.execute(
                "SELECT number, born_us, id, stream, body FROM parcels WHERE number > ? ORDER BY number LIMIT ?",
                (after, limit),
            )
            return [Parcel(number=n, born_us=b, id=i, stream=s, body=body) for n, b, i, s, body in found]

        return self._guarded(read)

    def close(self, *, uptime_us: int) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.execute("UPDATE life SET uptime_us = ?", (uptime_us,))
            with suppress(sqlite3.Error):
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._count.keep(self.rows, uptime_us=uptime_us, at_once=True)
        self.let_go()

    # -- a connection when it is needed -------------------------------------------------------------------

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`work` on an open file; a damaged one is set aside and `work` done again on the new one, once."""
        try:
            try:
                return work(self._connection())
            except sqlite3.Error as error:
                strange = isinstance(error, _StrangerError)
                if not strange and not is_damage(error):
                    raise
                self._set_aside("strange" if strange else "damaged")
                return work(self._connection())
        except sqlite3.Error as error:
            if not keeps_connection(error):
                self.let_go()
            raise Retryable(f"the queue {self.path}: {error}") from error
        except OSError as error:
            raise Retryable(f"the queue {self.path}: {error.strerror}") from error

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(self.path, timeout=0.2, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(db)
            except BaseException:
                db.close()
                raise
            self._db = db
        return self._db

    def _prepare(self, db: sqlite3.Connection) -> None:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > FORMAT:
            raise ConfigError(
                f"{self.path} has queue format {version}, written by a newer nearfar; this one knows {FORMAT}. "
                "Run the newer version until the queue is empty, or choose another state_dir"
            )
        if version == 0:
            db.execute("PRAGMA page_size = 1024")  # a commit writes whole pages, and an answer is small
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")  # `_tidy` does it by size, and counts what it wrote
        db.execute("PRAGMA synchronous = NORMAL")  # a commit is one write without fsync; checkpoints do fsync
        if self._max_pages is not None:
            db.execute(f"PRAGMA max_page_count = {int(self._max_pages)}")
        if version == 0:
            mark = 1 + secrets.randbelow(0x7FFF_FFFE)
            db.executescript(f"BEGIN IMMEDIATE;{_TABLES}PRAGMA application_id = {mark};COMMIT;")
        rows, size, last = db.execute(
            "SELECT count(*), coalesce(sum(length(body)), 0), coalesce(max(number), 0) FROM parcels"
        ).fetchone()
        (uptime_us,) = db.execute("SELECT uptime_us FROM life").fetchone()
        if version == 0 and self._mark is None:
            self._miss(self._count.read() or 0)
        self._recognise(db, rows)
        self.rows, self.bytes = rows, size + rows * OVERHEAD_BYTES
        self.uptime_us, self.last_number = max(self.uptime_us, uptime_us), last
        self._wal_bytes = self._wal_size()

    def _recognise(self, db: sqlite3.Connection, rows: int) -> None:
        """Book what came or went while the file was not open. Raises _StrangerError for another one that is not empty."""
        mark = int(db.execute("PRAGMA application_id").fetchone()[0])
        same = self._mark is None or mark == self._mark
        if not same and rows:
            raise _StrangerError("it is another one than before")
        gone = self.rows - (rows if same else 0)
        self._mark = mark
        if gone > 0:
            log.error("the queue %s is not as it was left: at least %d answers are gone", self.path, gone)
        self.set_aside += max(0, gone)
        self.inherited += max(0, -gone)

    def _miss(self, left: int) -> None:
        """An earlier process left `left` parcels here, and there is no file of it, or an empty one."""
        if left:
            log.error("the queue %s is gone: at least %d answers are gone with it", self.path, left)
        self.set_aside += left
        self.inherited += left

    def _set_aside(self, why: str) -> None:
        """Move what is at our path away. What our own file held counts as set aside."""
        self.let_go()
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.{why}-{number}")).exists():
            number += 1
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + suffix).rename(aside.with_name(aside.name + suffix))
        lost: int | None = self.rows
        at_least = self.rows
        if self._mark is None:  # of an earlier process
            lost = self._count.read()
            at_least = max(_readable_rows(aside), lost or 0)
            self.inherited += at_least
        if lost is None:
            self.uncounted += (aside.name,)
        log.error(
            "the queue %s is %s: that is kept as %s, and a new one goes on; %sat least %d answers are set aside",
            self.path,
            "another one than before" if why == "strange" else why,
            aside.name,
            "" if lost is not None else "nobody knows how many were on it, ",
            at_least,
        )
        self.set_aside += at_least
        self.rows = self.bytes = 0
        self._mark = self._mark or 0

    def let_go(self) -> None:
        """Leave the file as it lies, as a kill would; whatever comes next opens it again. Never raises."""
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    def _tidy(self) -> None:
        """After a commit: give the space of an outage back once it is over, and keep the WAL short. Trouble here undoes
        nothing."""
        if self._db is None:
            return
        with suppress(sqlite3.Error, OSError):
            over = self.rows == 0 and self.path.stat().st_size >= VACUUM_BYTES
            if over:
                self._db.execute("VACUUM")  # nothing is copied: there is nothing
            size = self._wal_size()
            self.flash_bytes += size - self._wal_bytes if size >= self._wal_bytes else size
            self._wal_bytes = size
            if over or size >= WAL_CHECKPOINT_BYTES:
                # TRUNCATE does not say how much it moved, PASSIVE does.
                moved = self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[2]
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                pages, page_bytes = (
                    int(self._db.execute(f"PRAGMA {p}").fetchone()[0]) for p in ("page_count", "page_size")
                )
                self.flash_bytes += min(max(0, moved), pages) * page_bytes  # each page once
                self._wal_bytes = self._wal_size()

    def _wal_size(self) -> int:
        try:
            return self.path.with_name(self.path.name + "-wal").stat().st_size
        except OSError:
            return 0


def _readable_rows(path: Path) -> int:
    """How many parcels a damaged file still shows, 0 when it shows none. Nothing is changed, and nothing made beside it."""
    count = 0
    logged = path.with_name(path.name + "-wal").exists()
    how = "mode=ro" if logged else "immutable=1"  # else a reader leaves an empty -wal and -shm
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True)) as db,
    ):
        for _ in db.execute("SELECT number FROM parcels"):
            count += 1
    return count
