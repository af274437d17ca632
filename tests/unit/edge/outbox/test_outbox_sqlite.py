"""The outbox file under bad luck: damage, a full disk, a newer format."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from edge.outbox.bounds import Bounds
from edge.outbox.file.sqlite import WAL_CHECKPOINT_BYTES, SqliteOutbox
from edge.outbox.file.storage import DiskStorage
from edge.outbox.store import Changes, Watermark
from pipelines.errors import ConfigError, Retryable
from tests.support.outboxes import RUN, entry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "outbox.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteOutbox]:
    store = SqliteOutbox(path)
    store.open(0)
    yield store
    store.close(0)


class NotedSyncs(DiskStorage):
    synced = 0

    def sync(self, path: Path) -> None:
        self.synced += 1


def seqs(store: SqliteOutbox) -> list[int]:
    return [s.key[2] for s in store.peek(limit=10_000, max_bytes=1 << 30)]


def ruin(path: Path) -> None:
    """Overwrite every page but the first, in place, as a dying card would."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


def test_a_file_that_is_no_database_is_set_aside_and_a_new_one_begun(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database, it is a letter" * 200)
    store = SqliteOutbox(path)
    store.open(0)
    store.commit(Changes(entries=[entry(1)]), 0)
    assert path.with_name("outbox.db.damaged-1").read_bytes().startswith(b"this is not")
    assert seqs(store) == [1]
    assert (store.ledger().set_aside_files, store.ledger().balance) == (1, 0)
    store.close(0)


def test_damage_found_while_running_is_set_aside_counted_and_explained(path: Path) -> None:
    store = SqliteOutbox(path)
    mark = Watermark(run=RUN, stream="door", reserved=256, settled=40)
    store.commit(Changes(entries=[entry(n, size=2000) for n in range(1, 41)], marks=[mark]), 0)
    store.commit(Changes(acknowledged=[s.number for s in store.peek(limit=3, max_bytes=1 << 20)]), 0)
    store.close(0)
    store.open(0)
    ruin(path)
    assert seqs(store) == []
    store.commit(Changes(entries=[entry(41)]), 0)
    ledger = store.ledger()
    assert path.with_name("outbox.db.damaged-1").exists()
    assert seqs(store) == [41]
    assert (ledger.committed, ledger.acked, ledger.pending, ledger.set_aside) == (41, 3, 1, 37)
    assert ledger.balance == 0
    store.close(0)


def test_a_second_damaged_file_does_not_overwrite_the_first(path: Path) -> None:
    path.parent.mkdir()
    for n in (1, 2):
        path.write_bytes(f"letter number {n}".encode() * 400)
        store = SqliteOutbox(path)
        store.open(0)
        store.close(0)
    asides = sorted(p.name for p in path.parent.glob("outbox.db.damaged-?"))
    assert asides == ["outbox.db.damaged-1", "outbox.db.damaged-2"]


def test_what_is_whole_in_a_damaged_file_goes_on_in_the_new_one(path: Path) -> None:
    store = SqliteOutbox(path)
    mark = Watermark(run=RUN, stream="door", reserved=256, settled=5)
    store.commit(Changes(entries=[entry(n) for n in range(1, 6)], marks=[mark]), 0)
    store.close(0)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE gaps")  # opens, reads, and is no outbox
    again = SqliteOutbox(path)
    again.open(0)
    ledger = again.ledger()
    assert (ledger.committed, ledger.set_aside, ledger.pending, ledger.balance) == (5, 0, 5, 0)
    assert seqs(again) == [1, 2, 3, 4, 5]
    assert (again.gaps(limit=10), again.runs()) == ([], [mark])
    again.close(0)


def test_a_full_disk_is_retryable_changes_nothing_and_heals(path: Path) -> None:
    store = SqliteOutbox(path, max_pages=96)
    store.commit(Changes(entries=[entry(1, size=1000)]), 0)
    before = store.ledger()
    with pytest.raises(Retryable, match="full"):
        store.commit(Changes(entries=[entry(n, size=4000) for n in range(2, 60)]), 0)
    assert seqs(store) == [1]
    assert store.ledger() == before
    store.commit(Changes(entries=[entry(2, size=1000)]), 0)
    assert (seqs(store), store.ledger().balance) == ([1, 2], 0)
    store.close(0)


def test_a_folder_that_cannot_be_made_is_retryable_and_heals(tmp_path: Path) -> None:
    obstacle = tmp_path / "state"
    obstacle.write_text("a file where the folder should be")
    store = SqliteOutbox(obstacle / "outbox.db")
    with pytest.raises(Retryable):
        store.open(0)
    obstacle.unlink()
    store.commit(Changes(entries=[entry(1)]), 0)
    assert seqs(store) == [1]
    store.close(0)


def test_a_newer_format_is_refused_in_words_and_left_alone(path: Path, store: SqliteOutbox) -> None:
    store.close(0)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match=r"format 99.*newer nearfar"):
        SqliteOutbox(path).open(0)
    assert not list(path.parent.glob("*.damaged-*"))


def test_acknowledged_data_gives_its_space_back(path: Path, store: SqliteOutbox) -> None:
    store.commit(Changes(entries=[entry(n, size=4000) for n in range(1, 501)]), 0)
    full = store.ledger().bytes
    store.commit(Changes(acknowledged=[s.number for s in store.peek(limit=1000, max_bytes=1 << 30)]), 0)
    store.close(0)
    assert full > 2_000_000
    assert path.stat().st_size < 200_000


def test_the_law_is_in_the_file_and_not_only_in_memory(path: Path, store: SqliteOutbox) -> None:
    store.commit(Changes(entries=[entry(n) for n in range(1, 4)]), 0)
    store.commit(Changes(acknowledged=[store.peek(limit=1, max_bytes=1)[0].number]), 0)
    with closing(sqlite3.connect(path)) as db:
        committed, acked = db.execute("SELECT committed, acked FROM ledger").fetchone()
        (pending,) = db.execute("SELECT count(*) FROM records").fetchone()
    assert (committed, acked, pending) == (3, 1, 2)


def test_what_goes_to_flash_is_measured(store: SqliteOutbox) -> None:
    store.commit(Changes(entries=[entry(1, size=100_000)]), 0)
    assert store.ledger().flash_bytes_written >= 100_000


def test_what_goes_from_the_log_into_the_file_is_measured_as_well(store: SqliteOutbox, path: Path) -> None:
    before_bytes = path.stat().st_size
    store.commit(Changes(entries=[entry(1, size=WAL_CHECKPOINT_BYTES)]), 0)
    store.tidy()
    into_the_file = path.stat().st_size - before_bytes
    assert into_the_file >= WAL_CHECKPOINT_BYTES
    assert store.ledger().flash_bytes_written >= WAL_CHECKPOINT_BYTES + into_the_file


def test_power_durability_syncs_what_was_committed_and_process_does_not(path: Path) -> None:
    for durability, times in (("process", 0), ("power", 1)):
        storage = NotedSyncs()
        store = SqliteOutbox(path, durability=durability, storage=storage)  # type: ignore[arg-type]
        store.commit(Changes(entries=[entry(1)]), 0)
        store.sync()
        assert storage.synced == times
        store.close(0)


def test_the_name_of_a_new_wal_is_forced_out_with_its_first_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(
        "edge.outbox.file.storage.os.fsync", lambda fd: synced.append(stat.S_ISDIR(os.fstat(fd).st_mode))
    )
    store = SqliteOutbox(path, durability="power")
    store.commit(Changes(entries=[entry(1)]), 0)
    del synced[:]
    for _ in range(3):
        store.sync()
    assert synced == [False, True, False, False]
    store.close(0)


def test_bounds_that_cannot_hold_anything_are_refused() -> None:
    with pytest.raises(ConfigError):
        Bounds(max_bytes=10)
