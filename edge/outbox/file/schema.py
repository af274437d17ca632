"""The outbox file: its tables, its format version and what SQLite's errors mean for it.

`PRAGMA user_version` is the format: an older one is brought up to date, a newer one refused with words. The file is
in WAL mode with incremental auto-vacuum, so that acknowledged data gives its space back. `ledger` has one row,
written in every transaction: the law `committed = acked + pending + evicted + set_aside` survives any crash, that of
the payloads too. SQLite notices a page that makes no sense but not a flipped bit inside a value: records, payloads and
ledger carry a checksum.
"""

import sqlite3
import zlib
from collections.abc import Mapping
from pathlib import Path

from edge.outbox.file.migrations import FORMAT, migrate
from edge.outbox.file.payload_rows import TABLE as _PAYLOADS
from edge.outbox.file.refused_rows import TABLE as _REFUSED
from pipelines.errors import ConfigError

FILE_NAME = "outbox.db"
UNREADABLE = (
    "cannot be read as an outbox (its agent, when it starts, saves every whole record into a new file)"
)
LAST_FORMAT = 99
PAGE_BYTES = 1024
"""Each answer is a commit, and a commit writes every page that it touches: small pages wear the flash 3.5 times less
than SQLite's 4096 bytes do."""

LEDGER_COLUMNS = (
    "committed",
    "acked",
    "evicted_age",
    "evicted_bytes",
    "evicted_purged",
    "set_aside",
    "set_aside_files",
    "gaps_dropped",
    "bytes",
    "uptime_us",
    "flash_bytes_written",
    "next_number",
    "payloads_committed",
    "payloads_acked",
    "payloads_evicted_age",
    "payloads_evicted_bytes",
    "payloads_evicted_purged",
    "payloads_refused",
    "payloads_set_aside",
    "payload_bytes",
)
"""What is written with every transaction; what else a ledger says is counted."""

_LEDGER_SORTED = sorted(LEDGER_COLUMNS)

COUNTED = {"pending": "records", "gaps": "gaps", "payloads_pending": "payloads", "refused": "refused"}
"""What a ledger says besides, by the table whose rows it counts."""

_TABLES = f"""
CREATE TABLE ledger (
    {", ".join(f"{name} INTEGER NOT NULL DEFAULT 0" for name in LEDGER_COLUMNS)},
    crc INTEGER                 -- ledger_crc; NULL until the first transaction
);
INSERT INTO ledger (next_number) VALUES (1);
CREATE TABLE records (
    entry INTEGER PRIMARY KEY,  -- from ledger.next_number, never reused: a replaced record gets a new one
    run BLOB NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL,
    priority INTEGER NOT NULL,  -- 0 low, 1 normal, 2 high
    born_us INTEGER NOT NULL,   -- ledger.uptime_us at capture; may be negative
    data BLOB NOT NULL,         -- protos.wire.records.encode
    crc INTEGER,                -- record_crc; NULL: written by format 1
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
{_PAYLOADS}
{_REFUSED}
PRAGMA user_version = {FORMAT};
"""

# A key that contradicts itself is damage too: our own statements cannot collide. And they are right, so a general
# error is a file that lacks a table, or has a head that SQLite cannot use.
_DAMAGE = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_ERROR,
    }
)

# After these the same connection may go on; after others a new one is opened for the next call.
_KEEPS_CONNECTION = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class DamagedError(sqlite3.DatabaseError):
    """The file opened, and is not an outbox."""


def _primary_code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is broken; anything else is trouble around it and may heal."""
    # Python's own word for a text that is none has no code of SQLite's.
    undecodable = "decode" in str(error)
    return isinstance(error, DamagedError) or _primary_code(error) in _DAMAGE or undecodable


def keeps_connection(error: sqlite3.Error) -> bool:
    return _primary_code(error) in _KEEPS_CONNECTION


def _format_of(db: sqlite3.Connection, path: Path) -> int:
    """DamagedError for a number no outbox has, ConfigError for a newer one."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if not 0 < version <= LAST_FORMAT:
        raise DamagedError(f"not an outbox: none ever had format {version}")
    if version > FORMAT:
        raise ConfigError(
            f"{path} has outbox format {version}, written by a newer nearfar; this one knows {FORMAT}. "
            "Run the newer version until the outbox is empty, or choose another state_dir"
        )
    return version


def record_crc(run: bytes, stream: str, seq: int, data: bytes) -> int:
    """CRC-32 of a record and of the identity it is kept under."""
    return zlib.crc32(data, zlib.crc32(b"%d" % seq, stream_crc(run, stream)))


def stream_crc(run: bytes, stream: str) -> int:
    """The part of a record's checksum that is the same for all of a stream."""
    return zlib.crc32(run + stream.encode())


def ledger_crc(values: Mapping[str, int]) -> int:
    """CRC-32 of the numbers of a ledger; those that are 0 add nothing, so that a new one changes no old sum."""
    told = [(name, value) for name in _LEDGER_SORTED if (value := values.get(name))]
    return zlib.crc32(repr(told).encode())


def read_ledger(db: sqlite3.Connection, *, check: bool = True) -> dict[str, int]:
    """The numbers of the file, of any known format; DamagedError if there are none or their checksum is wrong."""
    there = {row[1] for row in db.execute("PRAGMA table_info(ledger)")}
    names = [name for name in LEDGER_COLUMNS if name in there]
    if not names:
        raise DamagedError("not an outbox: it has no ledger")
    crc = "crc" if "crc" in there else "NULL"
    row = db.execute(f"SELECT {', '.join(names)}, {crc} FROM ledger").fetchone()
    if row is None or not all(isinstance(value, int) for value in row[:-1]):
        raise DamagedError("not an outbox: its ledger holds no numbers")
    values = dict.fromkeys(LEDGER_COLUMNS, 0) | dict(zip(names, row, strict=False))
    if check and row[-1] is not None and row[-1] != ledger_crc(values):
        raise DamagedError("the ledger does not fit its checksum")
    return values


def count_rows(db: sqlite3.Connection, *, older: bool = False) -> dict[str, int]:
    """The numbers of COUNTED; 0 for a table that is not there, if the file may be of an `older` format."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return {
        name: int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        if table in there or not older
        else 0
        for name, table in COUNTED.items()
    }


def connect(
    path: Path, *, max_pages: int | None = None, factory: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    """The outbox at `path`, which exists, in autocommit mode: the caller begins and commits.

    Raises ConfigError for a file of a newer format and sqlite3.Error for anything SQLite says; DamagedError for a
    database that is none of ours. `synchronous=NORMAL`: a commit is one write to the WAL without fsync, which
    survives kill −9 because the page cache does; checkpoints do fsync, so a power cut may lose the last commits but
    never damages the file, as `OFF` could.
    """
    db = sqlite3.connect(path, timeout=0.2, isolation_level=None, factory=factory)
    try:
        version = _format_of(db, path)
        _settle(db, max_pages=max_pages)
        migrate(db, version)
    except BaseException:
        db.close()
        raise
    return db


def create(path: Path, *, max_pages: int | None = None) -> None:
    """An empty outbox at `path`, where nothing is; sqlite3.Error if it cannot be made."""
    db = sqlite3.connect(path, timeout=0.2, isolation_level=None)
    try:
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _settle(db, max_pages=max_pages)
        db.executescript(f"BEGIN IMMEDIATE;{_TABLES}COMMIT;")
    finally:
        db.close()


def _settle(db: sqlite3.Connection, *, max_pages: int | None) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    # Damage is found when a page is read, not when it has done harm.
    db.execute("PRAGMA cell_size_check = ON")
    db.execute("PRAGMA wal_autocheckpoint = 0")  # the store checkpoints by size, and counts what it wrote
    if max_pages is not None:
        db.execute(f"PRAGMA max_page_count = {int(max_pages)}")


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
    except (sqlite3.Error, ValueError) as error:  # damaged text is no UTF-8
        raise ConfigError(f"{path} {UNREADABLE}: {error}") from error
    return db
