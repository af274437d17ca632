"""The outbox file: its tables, its format version and what SQLite's errors mean for it.

`PRAGMA user_version` is the format; a newer one is refused with words, never guessed at. The file is in WAL
mode with incremental auto-vacuum, so that acknowledged data gives its space back. `ledger` has one row, written
in every transaction: the law `committed = acked + pending + evicted + set_aside` survives any crash.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from edge.outbox.payload_rows import TABLE as _PAYLOADS
from pipelines.errors import ConfigError

FILE_NAME = "outbox.db"

_FORMAT_1_COLUMNS = (
    "committed",
    "acked",
    "evicted_age",
    "evicted_bytes",
    "set_aside",
    "set_aside_files",
    "gaps_dropped",
    "bytes",
    "uptime_us",
    "flash_bytes_written",
    "next_number",
)
PAYLOAD_COLUMNS = (
    "payloads_committed",
    "payloads_acked",
    "payloads_evicted_age",
    "payloads_evicted_bytes",
    "payloads_refused",
    "payloads_set_aside",
    "payload_bytes",
)
LEDGER_COLUMNS = _FORMAT_1_COLUMNS + PAYLOAD_COLUMNS
"""What is written with every transaction; what else a ledger says is counted."""

_TABLES = f"""
CREATE TABLE ledger ({", ".join(f"{name} INTEGER NOT NULL DEFAULT 0" for name in _FORMAT_1_COLUMNS)});
INSERT INTO ledger (next_number) VALUES (1);
CREATE TABLE records (
    entry INTEGER PRIMARY KEY,  -- from ledger.next_number, never reused: a replaced record gets a new one
    run BLOB NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL,
    priority INTEGER NOT NULL,  -- 0 low, 1 normal, 2 high
    born_us INTEGER NOT NULL,   -- ledger.uptime_us at capture; may be negative
    data BLOB NOT NULL,         -- protos.wire.records.encode
    UNIQUE (run, stream, seq)
);
CREATE INDEX records_by_worth ON records (priority, born_us, entry);
CREATE TABLE gaps (
    number INTEGER PRIMARY KEY,  -- from ledger.next_number
    run BLOB NOT NULL, stream TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    reason TEXT NOT NULL, detail TEXT NOT NULL, born_us INTEGER NOT NULL
);
CREATE INDEX gaps_by_end ON gaps (run, stream, reason, detail, last);
CREATE TABLE runs (
    run BLOB NOT NULL, stream TEXT NOT NULL,
    reserved INTEGER NOT NULL,  -- no seq above it was ever given to a frame
    settled INTEGER NOT NULL,   -- every seq up to it is recorded, or explained by a gap
    PRIMARY KEY (run, stream)
) WITHOUT ROWID;
"""
_COLUMNS_OF_PAYLOADS = "".join(
    f"ALTER TABLE ledger ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0;\n" for name in PAYLOAD_COLUMNS
)
_STEPS = (_TABLES, _PAYLOADS + _COLUMNS_OF_PAYLOADS)
"""Each makes a file of its format out of one of the format before; an empty file takes them all."""
FORMAT = len(_STEPS)
"""1: records, gaps, runs. 2: payloads."""

# A primary key or unique index that contradicts itself is damage too: our own statements cannot collide.
_DAMAGE = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CONSTRAINT}
)

# After these the same connection may go on; after others a new one is opened for the next call.
_KEEPS_CONNECTION = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class DamagedError(sqlite3.DatabaseError):
    """The file opened, and is not an outbox."""


def _primary_code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is broken; anything else is trouble around it and may heal."""
    return isinstance(error, DamagedError) or _primary_code(error) in _DAMAGE


def keeps_connection(error: sqlite3.Error) -> bool:
    return _primary_code(error) in _KEEPS_CONNECTION


def _format_of(db: sqlite3.Connection, path: Path) -> int:
    """0 for a file without tables; ConfigError for one of a newer format."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > FORMAT:
        raise ConfigError(
            f"{path} has outbox format {version}, written by a newer nearfar; this one knows {FORMAT}. "
            "Run the newer version until the outbox is empty, or choose another state_dir"
        )
    return version


def connect(path: Path, *, max_pages: int | None = None) -> sqlite3.Connection:
    """The outbox at `path`, made if missing, in autocommit mode: the caller begins and commits.

    Raises ConfigError for a file of a newer format and sqlite3.Error for anything SQLite says.
    `synchronous=NORMAL`: a commit is one write to the WAL without fsync, which survives kill −9 because the page
    cache does; checkpoints do fsync, so a power cut may lose the last commits but never damages the file, as
    `OFF` could.
    """
    db = sqlite3.connect(path, timeout=0.2, isolation_level=None)
    try:
        version = _format_of(db, path)
        if version == 0:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")  # the store checkpoints by size, and counts what it wrote
        if max_pages is not None:
            db.execute(f"PRAGMA max_page_count = {int(max_pages)}")
        if version < FORMAT:
            # Inside one transaction: a kill between two CREATEs must not leave half a schema.
            steps = "".join(_STEPS[version:])
            db.executescript(f"BEGIN IMMEDIATE;{steps}PRAGMA user_version = {FORMAT};COMMIT;")
    except BaseException:
        db.close()
        raise
    return db


def connect_read_only(path: Path) -> sqlite3.Connection:
    """A reader beside a live agent; raises ConfigError in words when there is nothing to read."""
    if not path.is_file():
        raise ConfigError(f"no outbox at {path}; give the agent's state_dir or its {FILE_NAME}")
    # A WAL file that was closed cleanly has no -wal beside it and may lie on a read-only disk.
    mode = "mode=ro" if path.with_name(path.name + "-wal").exists() else "mode=ro&immutable=1"
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=2.0)
        try:
            _format_of(db, path)
        except BaseException:
            db.close()
            raise
    except sqlite3.Error as error:
        raise ConfigError(f"{path} cannot be read as an outbox: {error}") from error
    return db


def read_ledger(db: sqlite3.Connection) -> dict[str, int] | None:
    """The ledger's row, with 0 for what an older format has not; None when there is no row."""
    found = db.execute("SELECT * FROM ledger")
    names = [column[0] for column in found.description]
    row = found.fetchone()
    if row is None:
        return None
    said = dict(zip(names, row, strict=True))
    return {name: said.get(name, 0) for name in LEDGER_COLUMNS}


def salvage(path: Path) -> tuple[dict[str, int], list[tuple[bytes, str, int, int]]]:
    """What a damaged file still tells: its ledger and its runs (run, stream, reserved, settled); empty if nothing."""
    ledger: dict[str, int] = {}
    runs: list[tuple[bytes, str, int, int]] = []
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.2)) as db:
            said = read_ledger(db)
            if said is not None and all(isinstance(value, int) for value in said.values()):
                ledger = said
            for run, stream, reserved, settled in db.execute(
                "SELECT run, stream, reserved, settled FROM runs"
            ):
                if isinstance(run, bytes) and isinstance(stream, str):
                    runs.append((run, stream, int(reserved), int(settled)))
    except (sqlite3.Error, ValueError, TypeError):
        pass  # what was read before the damage still counts
    return ledger, runs
