"""A record store in a SQLite file: for several threads, and for several workers on one host.

A transaction that writes takes its turn before it begins, up to 5 s, and is on the disk once it is committed. A file
that was moved or removed under a running worker is noticed, and so is a damaged one, which is set aside whole as
`NAME.damaged-N`.
"""

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError

from cloud.store.sql.database import NO_STORE, DiskFullError, Work, refusal
from pipelines.errors import ConfigError, Fatal, NearfarError, Rejected, Retryable

_WRITES = "nearfar_writes"
_BEGIN_WRITING = "BEGIN IMMEDIATE"
_BUSY_S = 5.0
_BUSY_STEP_S = 0.005
_MAGIC = b"SQLite format 3\0"
_CORRUPT, _NO_DATABASE = 11, 26  # SQLITE_CORRUPT, SQLITE_NOTADB
_IO, _FULL, _CANNOT_OPEN = 10, 13, 14  # SQLITE_IOERR, SQLITE_FULL, SQLITE_CANTOPEN
_ROOM_BYTES = 64 << 10  # less is no room for the index that a log in use has beside it
_BLAMES_VALUES = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)


class SqliteDatabase:
    """The file is made by the first connection unless `read_only`."""

    def __init__(self, url: URL, *, read_only: bool) -> None:
        """ConfigError when the URL names no file, or its folder cannot be made."""
        if not url.database or url.database == ":memory:":
            raise ConfigError("store.url: a record store needs a file; write sqlite:////path/records.db")
        self.path = Path(url.database)
        if read_only and not self.path.is_file():
            raise ConfigError(f"there is no record store at {self.path}; give the store.url of its worker")
        if not read_only:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(
                    f"store.url: cannot make the folder {self.path.parent}: {error.strerror}; "
                    "let the worker's user write there, or choose another"
                ) from error
        self.shown = str(self.path)
        self.url = f"sqlite:///{self.path}"
        self.engine = _engine(url, read_only=read_only)
        self._own: tuple[int, int] | None = None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self.engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
            yield connection

    def write(self, work: Work) -> None:
        """Past SQLAlchemy, which takes as long over a commit as the database, and longer while its code is not in the
        processor's caches."""
        try:
            connection = self.engine.raw_connection()
            try:
                driver: Any = connection.driver_connection
                driver.execute(_BEGIN_WRITING)
                for statement, rows in work:
                    if rows:
                        driver.executemany(statement.words, statement.values(rows))
                driver.execute("COMMIT")
            finally:  # back to the pool, which rolls back what was not committed
                connection.close()
        except sqlite3.Error as error:
            raise DBAPIError(None, None, error) from error

    def claim(self, connection: Connection) -> None:
        """It has the lock already; from here on the file of this moment is the store."""
        del connection
        self._own = self._identity()

    def still_there(self) -> bool:
        return self._own is not None and self._identity() == self._own

    def fault(self, error: DBAPIError, doing: str) -> NearfarError:
        if self.damaged(error):
            if not self._is_a_database():  # most often a healthy file of another kind
                return ConfigError(
                    f"{self.path} is no SQLite database; is store.url right? If it is, the file is damaged: "
                    "restore a copy, or move it away"
                )
            return Fatal(
                f"{self.path} is damaged ({error.orig}); restore a copy, or save what is left "
                f"with: sqlite3 {self.path} .recover"
            )
        if isinstance(error.orig, _BLAMES_VALUES):
            return Rejected(refusal(self.shown, doing, str(error.orig)))
        if str(error.orig).startswith(("no such table", "no such column")):
            return ConfigError(f"{self.path} {NO_STORE}")
        words = f"the record store {self.path} cannot {doing}: {error.orig}"
        if not self._full(error):
            return Retryable(words)
        return DiskFullError(words if "full" in words else f"{words}: the disk is full")

    def _full(self, error: DBAPIError) -> bool:
        """SQLite says so, or cannot make or grow a file beside the store on a disk without room."""
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if code not in (_IO, _CANNOT_OPEN):
            return code == _FULL
        try:
            return shutil.disk_usage(self.path.parent).free < _ROOM_BYTES
        except OSError:
            return False

    def damaged(self, error: DBAPIError) -> bool:
        code = getattr(error.orig, "sqlite_errorcode", 0)
        return code & 0xFF in (_CORRUPT, _NO_DATABASE)

    def set_aside(self) -> str:
        """The file with what belongs to it, under the next free name; "" if another worker has done it already."""
        self.engine.dispose()
        if not self._is_a_database() or (self._own is not None and self._identity() != self._own):
            return ""
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        try:
            for tail in ("-wal", "-shm", ""):
                part = self.path.with_name(self.path.name + tail)
                if part.exists():
                    part.rename(aside.with_name(aside.name + tail))
        except OSError as error:
            raise Retryable(f"{self.path} is damaged and cannot be moved away: {error.strerror}") from error
        self._own = None
        return str(aside)

    def close(self) -> None:
        self.engine.dispose()

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _is_a_database(self) -> bool:
        try:
            with self.path.open("rb") as file:
                return file.read(len(_MAGIC)) == _MAGIC
        except OSError:
            return False


def _engine(url: URL, *, read_only: bool) -> Engine:
    # the writer thread and readers on other threads each get their own connection from the pool
    engine = create_engine(url, connect_args={"timeout": _BUSY_S})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        if read_only:
            connection.execute("PRAGMA query_only=ON")
            return
        _use_wal(connection)
        # an agent forgets what was acked, so an acked commit must survive a power loss
        connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads before it writes can be refused without waiting for another worker's to end; one
        # that takes the lock first waits its turn.
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql(_BEGIN_WRITING if writes else "BEGIN")

    return engine


def _use_wal(connection: Any) -> None:
    """The one step SQLite does not wait for while another worker takes it too, on a new file."""
    until_s = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until_s:
                raise
            time.sleep(_BUSY_STEP_S)
        else:
            return
