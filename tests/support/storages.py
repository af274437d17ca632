"""Disks that fail by script, and processes that end at a chosen statement."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge.outbox.file.storage import DiskStorage, Room


def sqlite_error(code: int, words: str = "by script") -> sqlite3.OperationalError:
    """An error as SQLite raises it, by its primary result code."""
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode = code
    return error


class ScriptedStorage(DiskStorage):
    """A disk that calls `before` with every statement; what that raises is what the statement raises."""

    def __init__(self, before: Callable[[str], None]) -> None:
        class Scripted(sqlite3.Connection):
            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                before(sql)
                return super().execute(sql, *values)

            def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
                before(sql)
                return super().executemany(sql, *values)

            def executescript(self, sql: str) -> sqlite3.Cursor:
                before(sql)
                return super().executescript(sql)

        super().__init__(connection=Scripted)


class SmallDisk(DiskStorage):
    """A disk of `total` bytes with nothing on it but the folder of the outbox and `others` bytes."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self.total = total
        self.others = 0

    def room(self, path: Path) -> Room:
        used = sum(p.stat().st_size for p in path.parent.iterdir() if not p.name.endswith("-shm"))
        return Room(total=self.total, free=max(0, self.total - used - self.others))


class KilledError(BaseException):
    """The process is gone."""


class KillingStorage(ScriptedStorage):
    """Once `arm`ed, copies the files as they lie when statement number `at` is about to run, and ends the process."""

    def __init__(self) -> None:
        self._left: int | None = None
        self._from: Path = Path()
        self._to: Path = Path()
        super().__init__(self._count)

    def arm(self, at: int, path: Path, copy: Path) -> None:
        self._left, self._from, self._to = at, path, copy

    def disarm(self) -> bool:
        """Whether it had not struck."""
        waited, self._left = self._left is not None, None
        return waited

    def _count(self, _sql: str) -> None:
        if self._left is None:
            return
        self._left -= 1
        if self._left < 0:
            self._left = None
            copy_as_it_lies(self._from, self._to)
            raise KilledError


def copy_as_it_lies(path: Path, copy: Path) -> None:
    """The file and its WAL, without the index in shared memory, which a new process makes anew."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    for end in ("", "-wal"):
        source = path.with_name(path.name + end)
        if source.exists():
            shutil.copyfile(source, copy.with_name(copy.name + end))
