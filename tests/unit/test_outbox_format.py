"""An outbox file of an older format, as its gateway is upgraded."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from edge.outbox.sqlite import SqliteOutbox
from edge.outbox.store import Changes, Watermark
from pipelines.errors import Retryable
from pipelines.result import Gap, GapReason
from tests.support.outboxes import entry
from tests.support.storages import KilledError, KillingStorage, ScriptedStorage, sqlite_error

FORMAT_1 = """
CREATE TABLE ledger (
    committed INTEGER NOT NULL DEFAULT 0, acked INTEGER NOT NULL DEFAULT 0, evicted_age INTEGER NOT NULL DEFAULT 0,
    evicted_bytes INTEGER NOT NULL DEFAULT 0, set_aside INTEGER NOT NULL DEFAULT 0,
    set_aside_files INTEGER NOT NULL DEFAULT 0, gaps_dropped INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0, uptime_us INTEGER NOT NULL DEFAULT 0,
    flash_bytes_written INTEGER NOT NULL DEFAULT 0, next_number INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE records (
    entry INTEGER PRIMARY KEY, run BLOB NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL,
    priority INTEGER NOT NULL, born_us INTEGER NOT NULL, data BLOB NOT NULL, UNIQUE (run, stream, seq)
);
CREATE INDEX records_by_worth ON records (priority, born_us, entry);
CREATE TABLE gaps (
    number INTEGER PRIMARY KEY, run BLOB NOT NULL, stream TEXT NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL, born_us INTEGER NOT NULL
);
CREATE INDEX gaps_by_end ON gaps (run, stream, reason, detail, last);
CREATE TABLE runs (
    run BLOB NOT NULL, stream TEXT NOT NULL, reserved INTEGER NOT NULL, settled INTEGER NOT NULL,
    PRIMARY KEY (run, stream)
) WITHOUT ROWID;
INSERT INTO ledger VALUES (9, 5, 1, 1, 0, 0, 0, 616, 7000000, 12345, 12);
INSERT INTO records VALUES (3, zeroblob(16), 'door', 3, 1, 1000, x'0a0b'), (4, zeroblob(16), 'door', 4, 2, 2000, x'0c');
INSERT INTO gaps VALUES (11, zeroblob(16), 'door', 5, 6, 'shed', 'overload', 3000);
INSERT INTO runs VALUES (zeroblob(16), 'door', 256, 6);
PRAGMA user_version = 1;
"""


@pytest.fixture
def format_1(tmp_path: Path) -> Path:
    """A file as the first release left it."""
    path = tmp_path / "outbox.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;")
        db.executescript(f"BEGIN; {FORMAT_1} COMMIT;")
    return path


def test_a_file_of_an_older_format_keeps_everything_and_is_written_on(format_1: Path) -> None:
    store = SqliteOutbox(format_1)
    store.open(0)
    old = bytes(16)
    ledger = store.ledger()
    assert (ledger.committed, ledger.acked, ledger.pending, ledger.balance) == (9, 5, 2, 0)
    assert (store.uptime_us(0), ledger.flash_bytes_written) == (7_000_000, 12345)
    assert [(s.key, s.data) for s in store.peek(limit=9, max_bytes=1 << 20)] == [
        ((old, "door", 4), b"\x0c"),
        ((old, "door", 3), b"\x0a\x0b"),
    ]
    assert [g.gap for g in store.gaps(limit=9)] == [
        Gap(run=old, stream="door", first=5, last=6, reason=GapReason.SHED, detail="overload")
    ]
    assert store.runs() == [Watermark(run=old, stream="door", reserved=256, settled=6)]
    store.commit(Changes(entries=[entry(1)], purged=[3]), 0)
    store.close(0)
    again = SqliteOutbox(format_1)
    again.open(0)
    assert (again.ledger().evicted["purged"], again.ledger().balance, again.ledger().pending) == (1, 0, 2)
    assert not list(format_1.parent.glob("*.damaged-*"))
    again.close(0)


def test_an_upgrade_that_is_interrupted_anywhere_leaves_a_file_that_is_upgraded_later(
    format_1: Path, tmp_path: Path
) -> None:
    for at in range(40):
        storage = KillingStorage()
        copy = tmp_path / f"killed-{at}" / "outbox.db"
        storage.arm(at, format_1, copy)
        store = SqliteOutbox(format_1, storage=storage)
        with suppress(KilledError):
            store.open(0)
        survived = storage.disarm()
        store._drop_connection()
        if survived:
            break
        again = SqliteOutbox(copy)
        again.open(0)
        assert (again.ledger().pending, again.ledger().balance, again.ledger().set_aside_files) == (2, 0, 0)
        again.close(0)
    else:
        pytest.fail("the upgrade never ended")


class NoRoom(ScriptedStorage):
    """Full when the format is about to change."""

    def __init__(self) -> None:
        super().__init__(self._refuse)

    def _refuse(self, sql: str) -> None:
        if "ALTER" in sql:
            raise sqlite_error(sqlite3.SQLITE_FULL, "database or disk is full")


def test_an_upgrade_on_a_full_disk_waits_for_room(format_1: Path) -> None:
    with pytest.raises(Retryable, match="full"):
        SqliteOutbox(format_1, storage=NoRoom()).open(0)
    store = SqliteOutbox(format_1)
    store.open(0)
    assert (store.ledger().pending, store.ledger().set_aside_files) == (2, 0)
    store.close(0)
