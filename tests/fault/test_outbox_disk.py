"""The outbox on a disk that refuses, and beside a wall clock that lies."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.store import Changes
from tests.support.outboxes import SECOND, Desk, entry, record
from tests.support.storages import ScriptedStorage, sqlite_error


class Disk:
    """Fails every write with `code` while it is set."""

    code: int | None = None

    def __call__(self, sql: str) -> None:
        if self.code is not None and not sql.startswith(("SELECT", "PRAGMA")):
            raise sqlite_error(self.code)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def desk(tmp_path: Path, disk: Disk) -> Iterator[Desk]:
    desk = Desk(SqliteOutbox(tmp_path / "outbox.db", storage=ScriptedStorage(disk)))
    yield desk
    desk.store.close(desk.now_us)


@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN]
)
def test_a_disk_that_refuses_for_a_while_costs_nothing_and_is_no_damage(
    desk: Desk, disk: Disk, code: int
) -> None:
    desk.keeper.append(record(1), desk.now_us)
    desk.turn()
    disk.code = code
    for seq in range(2, 12):
        desk.keeper.append(record(seq), desk.now_us)
        desk.go(100_000)
    assert desk.committed == [1]
    assert desk.keeper.stats().uncommitted == 10
    disk.code = None
    desk.go(6 * SECOND)
    stats = desk.keeper.stats()
    assert desk.committed == list(range(1, 12))
    assert (stats.lost, stats.set_aside_files, stats.balance, stats.last_error) == (0, 0, 0, "")


def test_a_wrong_wall_clock_makes_no_record_old(tmp_path: Path) -> None:
    """Booted in 1970, then set forward by half a century and back: ages are uptime."""
    desk = Desk(SqliteOutbox(tmp_path / "outbox.db"))
    for seq, unix_us in enumerate((0, 4_102_444_800_000_000, 1_700_000_000_000_000, -5), start=1):
        desk.keeper.append(record(seq, captured_unix_us=unix_us), desk.now_us)
        desk.go(SECOND)
    desk.connect()
    desk.turn()
    sent = desk.deliver()
    assert [(r.id.seq, r.captured_unix_us) for r in sent] == [
        (1, 0),
        (2, 4_102_444_800_000_000),
        (3, 1_700_000_000_000_000),
        (4, -5),
    ]
    assert [round(r.age_us / SECOND) for r in sent] == [4, 3, 2, 1]
    assert desk.keeper.stats().evicted == {"age": 0, "bytes": 0, "purged": 0}
    desk.store.close(desk.now_us)


def test_a_reboot_that_starts_the_monotonic_clock_anew_makes_no_record_old_or_young(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    store = SqliteOutbox(path)
    store.open(10**15)
    store.commit(Changes(entries=[entry(1)]), 10**15)
    store.close(10**15 + 5 * SECOND)
    again = SqliteOutbox(path)
    again.open(3)
    (stored,) = again.peek(limit=1, max_bytes=1)
    assert again.uptime_us(3 + SECOND) - stored.born_us == 6 * SECOND
    again.close(3)
