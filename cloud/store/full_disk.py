"""A record store whose disk is full when its worker starts: what is known of it without writing a byte.

A store that is there keeps its id; one that could not be made yet gets the id it will have once there is room, the same at
each start until then. Where the id of one that is there cannot be read, the worker does not start: it would be taken for
another.
"""

import hashlib
import socket
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from cloud.store.sql.database import Database, DiskFullError
from cloud.store.sql.preparation import PAYLOADS_KEY, Found
from cloud.store.sql.sqlite import SqliteDatabase
from cloud.store.sql.tables import FORMAT

_MACHINE = Path("/etc/machine-id")
_ALONE = "mode=ro&immutable=1"
"""The file without what is beside it, where nothing can be made."""


def found_without_room(database: Database, error: DiskFullError) -> Found:
    """Raises `error` when nothing can be known, or the store would have to be brought up to date first."""
    if not isinstance(database, SqliteDatabase):
        raise error
    path = database.path
    log_beside = path.with_name(path.name + "-wal")
    pairs = _pairs(path)
    if pairs.get("format") == str(FORMAT) and pairs.get("store_id"):
        return Found(pairs["store_id"], pairs.get(PAYLOADS_KEY, ""))
    empty = not path.exists() or (not pairs and _has_no_table(path))
    if not empty or (log_beside.exists() and log_beside.stat().st_size):
        raise error
    return Found(_id_to_be(path.absolute()), was_there=False)


def _id_to_be(path: Path) -> str:
    """Nothing can be kept, so it follows from what stays: agents hold on to the id they were told first, also while a
    worker is started again and again, and two workers of one file must be of one store."""
    machine = b""
    with suppress(OSError):
        machine = _MACHINE.read_bytes()
    where = (machine, socket.gethostname(), str(path), path.parent.stat().st_ino)
    return hashlib.sha256(repr(where).encode()).hexdigest()[:32]


def _pairs(path: Path) -> dict[str, str]:
    """What the store says of itself: with what stands in the log beside it, if there is room to look into that."""
    for mode in ("mode=ro", _ALONE):
        try:
            with closing(_looking(path, mode)) as db:
                return dict(db.execute("SELECT key, value FROM meta").fetchall())
        except sqlite3.Error:
            continue
    return {}


def _has_no_table(path: Path) -> bool:
    try:
        with closing(_looking(path, _ALONE)) as db:
            return not db.execute("SELECT 1 FROM sqlite_master").fetchall()
    except sqlite3.Error:
        return False


def _looking(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)
