"""Everything the outbox asks of the operating system: opening its file, forcing it to flash, moving a bad one away.

A store is given its storage, so that a test (or another medium) can stand in for the disk. A new file is made
under another name and renamed into place: whatever lies at the path of an outbox was once a whole outbox, so an empty
file there is damage and not a beginning.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edge.outbox.file import schema
from pipelines.whole_file import sync_folder

WITH_IT = ("", "-wal", "-shm")
"""What belongs to a SQLite file, by the end of its name."""

KEEP_DAMAGED = 5
"""A dying card must not fill itself with what it damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Of the disk under a file, in bytes."""

    total: int
    free: int


class Storage(Protocol):
    """Raises sqlite3.Error or OSError as the system does; the store says what they mean."""

    def connect(self, path: Path, *, max_pages: int | None) -> sqlite3.Connection:
        """The outbox at `path`, made if there is none; DamagedError for what never was one."""
        ...

    def wal_bytes(self, path: Path) -> int: ...

    def room(self, path: Path) -> "Room": ...

    def sync(self, path: Path) -> None:
        """Force what was written to the WAL of `path` out to the medium."""
        ...

    def set_aside(self, path: Path) -> Path:
        """Move a damaged file and what belongs to it away, and say where to."""
        ...


class DiskStorage:
    """Files of this machine. `before`: what must be on the disk before an outbox is; it raises OSError until it is."""

    def __init__(
        self,
        *,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._before = before
        self._synced_names: int | None = None  # the WAL's inode, once its name is on the medium too

    def connect(self, path: Path, *, max_pages: int | None) -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._before()
        if path.is_dir():
            raise schema.DamagedError("a folder is in its place")
        if path.exists():
            _look_at_head(path)
        else:
            if _beside(path, "-wal").exists():  # it would be played into a new file
                raise schema.DamagedError("the file is gone and its WAL is left")
            self._create(path, max_pages=max_pages)
        return schema.connect(path, max_pages=max_pages, factory=self._connection)

    def wal_bytes(self, path: Path) -> int:
        try:
            return Path(f"{path}-wal").stat().st_size
        except OSError:
            return 0

    def room(self, path: Path) -> Room:
        found = os.statvfs(path.parent)
        return Room(total=found.f_blocks * found.f_frsize, free=found.f_bavail * found.f_frsize)

    def sync(self, path: Path) -> None:
        # A second descriptor of the WAL is safe to close: SQLite's locks are on the -shm and the main file.
        descriptor = os.open(_beside(path, "-wal"), os.O_RDONLY)
        try:
            os.fsync(descriptor)
            inode = os.fstat(descriptor).st_ino
        finally:
            os.close(descriptor)
        if inode != self._synced_names:  # a WAL whose name a power cut forgets is no WAL
            sync_folder(path.parent)
            self._synced_names = inode

    def set_aside(self, path: Path) -> Path:
        number = 1 + max((n for n, _ in _damaged(path)), default=0)
        aside = path.with_name(f"{path.name}.damaged-{number}")
        for end in WITH_IT:
            with suppress(FileNotFoundError):
                _beside(path, end).rename(_beside(aside, end))
        for _, old in _damaged(path)[:-KEEP_DAMAGED]:
            for end in WITH_IT:
                with suppress(OSError):  # a folder stays
                    _beside(old, end).unlink()
        return aside

    def _create(self, path: Path, *, max_pages: int | None) -> None:
        draft = path.with_name(path.name + ".new")
        for end in (*WITH_IT, "-journal"):
            _beside(draft, end).unlink(missing_ok=True)
        schema.create(draft, max_pages=max_pages)
        draft.rename(path)
        with suppress(OSError):  # a file system that cannot is no reason not to begin
            sync_folder(path.parent)


def _look_at_head(path: Path) -> None:
    """What SQLite would not call damage: it begins anew in an empty file and reads a future one without writing."""
    with path.open("rb") as file:
        head = file.read(20)
    if not head:
        raise schema.DamagedError("the file is empty")
    if head.startswith(b"SQLite format 3") and not set(head[18:20]) <= {1, 2}:
        raise schema.DamagedError("its head names a format that SQLite never had")


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _damaged(path: Path) -> list[tuple[int, Path]]:
    """Numbers and paths of files that were set aside before, oldest first."""
    found = [
        (p.name.removeprefix(f"{path.name}.damaged-"), p) for p in path.parent.glob(f"{path.name}.damaged-*")
    ]
    found = [(n.removesuffix("-wal"), p.with_name(p.name.removesuffix("-wal"))) for n, p in found]
    return sorted({(int(n), p) for n, p in found if n.isdecimal()})
