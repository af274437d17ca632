"""An outbox file of an older format, as its gateway is upgraded."""

import hashlib
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.store import Changes, Watermark
from nearfar.outbox.selection import Selection
from nearfar.outbox.view import looking
from pipelines.errors import Retryable
from pipelines.result import Gap, GapReason
from tests.support.outboxes import entry, payload
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

# What format 2 had besides, and the file of a gateway that keeps one picture.
FORMAT_2 = f"""
{FORMAT_1}
CREATE TABLE payloads (
    number INTEGER PRIMARY KEY, run BLOB NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL,
    priority INTEGER NOT NULL, born_us INTEGER NOT NULL, sha256 BLOB NOT NULL, size_bytes INTEGER NOT NULL,
    codec TEXT NOT NULL, quality INTEGER NOT NULL, width_px INTEGER NOT NULL, height_px INTEGER NOT NULL,
    bits INTEGER NOT NULL, channels INTEGER NOT NULL, source_width_px INTEGER NOT NULL,
    source_height_px INTEGER NOT NULL, hard INTEGER NOT NULL, data BLOB NOT NULL, UNIQUE (run, stream, seq)
);
CREATE INDEX payloads_by_worth ON payloads (priority, born_us, number);
ALTER TABLE ledger ADD COLUMN payloads_committed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN payloads_acked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN payloads_evicted_age INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN payloads_evicted_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN payloads_refused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN payloads_set_aside INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN payload_bytes INTEGER NOT NULL DEFAULT 0;
INSERT INTO payloads VALUES (12, zeroblob(16), 'door', 3, 1, 1000,
    x'{hashlib.sha256(bytes(5000)).hexdigest()}', 5000, 'jpeg', 90, 64, 48, 8, 3, 640, 480, 1, zeroblob(5000));
UPDATE ledger SET payloads_committed = 3, payloads_acked = 2, payload_bytes = 5256, bytes = bytes + 5256, next_number = 13;
PRAGMA user_version = 2;
"""


def made(path: Path, sql: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as db:
        db.executescript("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;")
        db.executescript(f"BEGIN; {sql} COMMIT;")
    return path


@pytest.fixture
def format_1(tmp_path: Path) -> Path:
    """A file as the first release left it."""
    return made(tmp_path / "outbox.db", FORMAT_1)


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
    store.commit(Changes(entries=[entry(1)], payloads=[payload(1)], purged=[3]), 0)
    store.close(0)
    again = SqliteOutbox(format_1)
    again.open(0)
    assert (again.ledger().evicted["purged"], again.ledger().balance, again.ledger().pending) == (1, 0, 2)
    assert (again.ledger().payloads_pending, again.ledger().payload_balance) == (1, 0)
    assert not list(format_1.parent.glob("*.damaged-*"))
    again.close(0)


def test_a_file_of_the_format_before_checksums_keeps_its_pictures(tmp_path: Path) -> None:
    store = SqliteOutbox(made(tmp_path / "outbox.db", FORMAT_2))
    store.open(0)
    (kept,) = store.payloads(limit=9)
    assert (kept.number, kept.shown.key, kept.size_bytes, kept.born_us) == (
        12,
        (bytes(16), "door", 3),
        5000,
        1000,
    )
    assert (kept.shown.encoding.width_px, kept.shown.source_size, kept.shown.hard) == (64, (640, 480), True)
    assert store.read_payload(12, offset_bytes=0, size_bytes=9999) == bytes(5000)
    store.commit(Changes(payloads=[payload(1), payload(2)], acknowledged_payloads=[12]), 0)
    ledger = store.ledger()
    assert (ledger.payloads_committed, ledger.payloads_acked, ledger.payloads_pending) == (5, 3, 2)
    assert (ledger.payload_balance, ledger.balance, ledger.set_aside_files) == (0, 0, 0)
    store.close(0)


def test_an_upgraded_file_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    """Columns in another order are allowed, but for the picture: no look should have to cross it."""
    found = []
    for name, sql in (("new", ""), ("1", FORMAT_1), ("2", FORMAT_2)):
        path = tmp_path / name / "outbox.db"
        if sql:
            made(path, sql)
        store = SqliteOutbox(path)
        store.open(0)
        store.close(0)
        with closing(sqlite3.connect(path)) as db:
            tables = sorted(
                n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite%'")
            )
            columns = {t: [row[1] for row in db.execute(f"PRAGMA table_info({t})")] for t in tables}
            version = db.execute("PRAGMA user_version").fetchone()
            assert columns["payloads"][-1] == "data"
            found.append((version, {t: sorted(c) for t, c in columns.items()}))
    assert found[0] == found[1] == found[2]


def test_a_file_of_an_older_format_can_be_looked_at_as_it_is(tmp_path: Path) -> None:
    for name, sql, pictures in (("1", FORMAT_1, 0), ("2", FORMAT_2, 1)):
        path = made(tmp_path / name / "outbox.db", sql)
        with looking(path) as view:
            ledger = view.ledger()
            assert (ledger.pending, ledger.balance, ledger.payloads_pending) == (2, 0, pictures)
            assert len(list(view.payloads(Selection()))) == len(view.payload_numbers(Selection())) == pictures
            assert (view.payload_of((bytes(16), "door", 3)) is not None) == bool(pictures)


@pytest.mark.parametrize("sql", [FORMAT_1, FORMAT_2], ids=["from 1", "from 2"])
def test_an_upgrade_that_is_interrupted_anywhere_leaves_a_file_that_is_upgraded_later(
    sql: str, tmp_path: Path
) -> None:
    old = made(tmp_path / "outbox.db", sql)
    for at in range(40):
        storage = KillingStorage()
        copy = tmp_path / f"killed-{at}" / "outbox.db"
        storage.arm(at, old, copy)
        store = SqliteOutbox(old, storage=storage)
        with suppress(KilledError):
            store.open(0)
        survived = storage.disarm()
        store.let_go()
        if survived:
            break
        again = SqliteOutbox(copy)
        again.open(0)
        assert (again.ledger().pending, again.ledger().balance, again.ledger().set_aside_files) == (2, 0, 0)
        assert len(again.payloads(limit=9)) == again.ledger().payloads_pending == (sql == FORMAT_2)
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
