"""The pictures in an outbox file under damage and on a disk that is nearly full: none is given out as another, none is lost
in silence, and no answer waits for one."""

import hashlib
import logging
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from edge.outbox.file import salvage, schema
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.payload import PayloadEntry, StoredPayload
from edge.outbox.store import Changes
from pipelines.errors import ConfigError, Retryable
from tests.support.outboxes import SECOND, Desk, entry, payload, record
from tests.support.storages import ScriptedStorage, SmallDisk, sqlite_error

PICTURES = 12
PAGE = schema.PAGE_BYTES


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("edge.outbox.file.sqlite", "edge.outbox.file.heritage"):
        caplog.set_level(logging.CRITICAL, name)


def pictures() -> list[PayloadEntry]:
    return [payload(n, size=1500 + 100 * n, priority=n % 3) for n in range(1, PICTURES + 1)]


def filled(path: Path) -> None:
    """Six records and PICTURES pictures, two of which the cloud has."""
    store = SqliteOutbox(path)
    store.commit(Changes(entries=[entry(n) for n in range(1, 7)], payloads=pictures()), 0)
    gone = [p.number for p in store.payloads(limit=PICTURES) if p.shown.key[2] > PICTURES - 2]
    store.commit(Changes(acknowledged_payloads=gone), 0)
    store.close(0)


def opened(path: Path, **options: object) -> SqliteOutbox:
    store = SqliteOutbox(path, **options)  # type: ignore[arg-type]
    store.open(0)
    return store


def content(store: SqliteOutbox, kept: StoredPayload) -> bytes:
    return store.read_payload(kept.number, offset_bytes=0, size_bytes=1 << 20) or b""


def given_out(store: SqliteOutbox) -> dict[int, bytes]:
    """Everything it gives out, by seq; a picture that is not what its hash says is set aside, as the uplink does."""
    truth = {e.shown.key[2]: e for e in pictures()}
    got: dict[int, bytes] = {}
    while found := store.payloads(limit=5):
        for kept in found:
            known = truth[kept.shown.key[2]]
            assert (kept.shown, kept.size_bytes) == (known.shown, len(known.data)), (
                "what is said of it is true"
            )
            data = content(store, kept)
            if hashlib.sha256(data).digest() == kept.shown.sha256:
                got[kept.shown.key[2]] = data
                store.commit(Changes(acknowledged_payloads=[kept.number]), SECOND)
            else:
                store.commit(Changes(unreadable_payloads=[kept.number]), SECOND)
    return got


def test_a_flipped_bit_in_any_page_shows_no_picture_as_another_and_loses_none_in_silence(
    tmp_path: Path,
) -> None:
    dice = random.Random(9)
    whole = tmp_path / "whole" / "outbox.db"
    filled(whole)
    data = whole.read_bytes()
    pages = len(data) // PAGE
    assert pages > 20
    found = saved = 0
    for number in range(1, pages):
        flipped = bytearray(data)
        flipped[PAGE * number + dice.randrange(PAGE)] ^= 1 << dice.randrange(8)
        path = tmp_path / f"flipped-{number}" / "outbox.db"
        path.parent.mkdir()
        path.write_bytes(flipped)
        store = opened(path)
        got = given_out(store)
        truth = {e.shown.key[2]: e.data for e in pictures()[:-2]}
        assert got.items() <= truth.items()
        ledger = store.ledger()
        assert (ledger.payload_balance, ledger.balance, ledger.payloads_pending) == (0, 0, 0)
        assert len(got) == len(truth) or ledger.payloads_set_aside or ledger.set_aside_files
        found += bool(ledger.payloads_set_aside or ledger.set_aside_files)
        saved += len(got)
        store.close(SECOND)
    assert found > pages / 3
    assert saved > (pages - 1) * (PICTURES - 2) * 0.9, "damage costs about the one picture that it hit"


@pytest.mark.parametrize(
    "damage", ["seq = 777", "hard = 1 - hard", "codec = x'ff'", "sha256 = x'00'", "width_px = 9", "crc = 5"]
)
def test_what_is_said_of_a_picture_is_whole_or_it_is_set_aside(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "outbox.db"
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"UPDATE payloads SET {damage} WHERE seq = 4")
        db.commit()
    store = opened(path)
    assert set(given_out(store)) == set(range(1, PICTURES - 1)) - {4}
    ledger = store.ledger()
    assert (ledger.payloads_set_aside, ledger.set_aside_files, ledger.payload_balance) == (1, 0, 0)
    assert ledger.pending == 6
    store.close(SECOND)


def test_an_index_that_lost_pictures_is_noticed_and_they_are_saved(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE payloads SET priority = 9")  # in no list of what goes next
        db.commit()
    store = opened(path)
    assert list(store.payloads(limit=5)) == []
    ledger = store.ledger()
    assert (ledger.set_aside_files, ledger.payloads_set_aside, ledger.payload_balance) == (1, PICTURES - 2, 0)
    assert ledger.pending == 6
    store.close(SECOND)


def broken(path: Path) -> None:
    """The file cannot be used; its rows are whole."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE gaps")


def test_whole_pictures_of_a_damaged_file_go_on_in_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE payloads SET data = zeroblob(length(data)) WHERE seq = 5")
        db.commit()
    broken(path)
    store = opened(path)
    ledger = store.ledger()
    assert (ledger.payloads_committed, ledger.payloads_acked, ledger.payloads_pending) == (
        PICTURES,
        2,
        PICTURES - 3,
    )
    assert (ledger.payloads_set_aside, ledger.payload_balance, ledger.set_aside_files) == (1, 0, 1)
    assert (ledger.pending, ledger.set_aside) == (6, 0)
    assert set(given_out(store)) == set(range(1, PICTURES - 1)) - {5}
    store.close(SECOND)


def test_of_many_pictures_the_most_important_are_saved_and_the_others_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(salvage, "PAYLOAD_BYTES", 6000)
    path = tmp_path / "outbox.db"
    filled(path)
    broken(path)
    store = opened(path)
    kept = store.payloads(limit=PICTURES)
    assert {p.shown.priority for p in kept} == {2}
    assert 6000 <= sum(p.size_bytes for p in kept) < 9000
    ledger = store.ledger()
    assert (ledger.payloads_set_aside, ledger.payload_balance) == (PICTURES - 2 - len(kept), 0)
    store.close(SECOND)


def test_on_a_nearly_full_disk_records_are_saved_and_pictures_stay_in_the_file_that_was_set_aside(
    tmp_path: Path,
) -> None:
    path = tmp_path / "outbox.db"
    filled(path)
    broken(path)
    store = opened(path, storage=SmallDisk(path.stat().st_size))
    ledger = store.ledger()
    assert (ledger.pending, ledger.set_aside) == (6, 0)
    assert (ledger.payloads_pending, ledger.payloads_set_aside, ledger.payload_balance) == (
        0,
        PICTURES - 2,
        0,
    )
    store.close(SECOND)


def test_a_damaged_ledger_of_pictures_is_not_believed_and_costs_no_picture(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE ledger SET payload_bytes = payload_bytes + 1000000")
        db.commit()
    store = opened(path)
    assert store.ledger().set_aside_files == 1
    assert len(given_out(store)) == PICTURES - 2
    assert (store.ledger().payload_bytes, store.ledger().payloads_set_aside) == (0, 0)
    store.close(SECOND)


def test_a_number_of_a_newer_format_is_refused_with_pictures_too(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 98")
    with pytest.raises(ConfigError, match="format 98"):
        opened(path)


def test_a_disk_that_is_nearly_full_lets_go_of_pictures_and_keeps_taking_answers(tmp_path: Path) -> None:
    disk = SmallDisk(8 << 20)
    desk = Desk(SqliteOutbox(tmp_path / "state" / "outbox.db", storage=disk))
    for seq in range(1, 101):
        desk.keeper.payloads.put(payload(seq, size=100_000, priority=seq % 3), desk.now_us)
        desk.go(SECOND // 10)
    stats = desk.keeper.stats()
    assert stats.payloads_uncommitted > 0
    assert "disk is full" in stats.last_error
    assert disk.room(desk_path(desk)).free > 0, "pictures leave the last of the disk alone"
    for seq in range(1, 101):
        desk.keeper.append(record(seq), desk.now_us)
        desk.go(SECOND // 10)
    desk.go(10 * SECOND)
    stats = desk.keeper.stats()
    assert desk.committed == list(range(1, 101))
    assert stats.payloads_evicted["bytes"] > 0
    assert stats.payloads_pending > 10, "no more pictures went than room was needed for"
    assert (stats.lost, stats.balance, stats.payload_balance) == (0, 0, 0)
    desk.store.close(desk.now_us)


def desk_path(desk: Desk) -> Path:
    assert isinstance(desk.store, SqliteOutbox)
    return desk.store.path


def test_a_disk_that_refuses_for_a_while_costs_no_picture(tmp_path: Path) -> None:
    refusing = False

    def refuse(sql: str) -> None:
        if refusing and not sql.startswith(("SELECT", "PRAGMA")):
            raise sqlite_error(sqlite3.SQLITE_IOERR)

    desk = Desk(SqliteOutbox(tmp_path / "outbox.db", storage=ScriptedStorage(refuse)))
    desk.keeper.payloads.put(payload(1), desk.now_us)
    desk.turn()
    refusing = True
    for seq in range(2, 6):
        desk.keeper.payloads.put(payload(seq), desk.now_us)
        desk.go(SECOND)
    assert desk.keeper.stats().payloads_uncommitted == 4
    refusing = False
    desk.go(3 * SECOND)
    stats = desk.keeper.stats()
    assert (stats.payloads_pending, stats.payloads_uncommitted, stats.payloads_lost) == (5, 0, 0)
    assert (stats.set_aside_files, stats.payload_balance, stats.last_error) == (0, 0, "")
    desk.store.close(desk.now_us)


def test_what_the_cloud_has_leaves_a_full_disk_first(tmp_path: Path) -> None:
    """Acknowledged pictures go before any other is given up."""
    store = SqliteOutbox(tmp_path / "outbox.db", max_pages=900)
    desk = Desk(store)
    while desk.keeper.stats().payloads_uncommitted == 0:
        seq = desk.keeper.stats().payloads_committed + 1
        desk.keeper.payloads.put(payload(seq, size=100_000), desk.now_us)
        desk.go(SECOND // 10)
    kept = [p.number for p in store.payloads(limit=99)]
    desk.keeper.backfill.payloads.acknowledged.update(kept[:4])
    with pytest.raises(Retryable, match="full"):
        store.commit(Changes(entries=[entry(1, size=150_000)]), desk.now_us)
    desk.keeper.backfill.make_room(None, most=1, now_us=desk.now_us)
    assert [p.number for p in store.payloads(limit=99)] == kept[4:]
    assert store.ledger().payloads_acked == 4
    assert not desk.keeper.backfill.payloads.acknowledged
    store.commit(Changes(entries=[entry(1, size=150_000)]), desk.now_us)
    store.close(desk.now_us)
