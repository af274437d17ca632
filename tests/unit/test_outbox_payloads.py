"""The outbox file with payloads in it: upgraded from before there were any, full, damaged."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from edge.outbox.sqlite import SqliteOutbox
from edge.outbox.store import Changes
from pipelines.errors import Retryable
from tests.support.outboxes import SECOND, Desk, entry, payload, record


def as_before_payloads(path: Path) -> None:
    """The file as the format before had it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DROP TABLE payloads")
        columns = [row[1] for row in db.execute("PRAGMA table_info(ledger)")]
        for name in columns:
            if name.startswith("payload"):
                db.execute(f"ALTER TABLE ledger DROP COLUMN {name}")
        (today,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {today - 1}")


def test_an_outbox_from_before_there_were_payloads_goes_on_with_all_it_has(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    store = SqliteOutbox(path)
    store.open(0)
    store.commit(Changes(entries=[entry(1), entry(2)]), SECOND)
    store.close(SECOND)
    before = store.ledger()
    as_before_payloads(path)
    store = SqliteOutbox(path)
    store.open(0)
    after = store.ledger()
    names = ("committed", "pending", "bytes", "uptime_us", "payloads_committed", "payload_bytes")
    assert [getattr(after, name) for name in names] == [getattr(before, name) for name in names]
    assert [s.key[2] for s in store.peek(limit=9, max_bytes=1 << 20)] == [1, 2]
    store.commit(Changes(payloads=[payload(1)]), SECOND)
    assert store.ledger().payloads_pending == 1
    store.close(SECOND)


def test_a_full_disk_lets_go_of_payloads_before_any_answer_waits(tmp_path: Path) -> None:
    desk = Desk(SqliteOutbox(tmp_path / "outbox.db", max_pages=260))
    for seq in range(1, 200):
        desk.keeper.payloads.put(payload(seq, size=8_000, priority=0), desk.now_us)
        desk.go(SECOND // 10)
    assert desk.store.ledger().payloads_pending > 3
    for seq in range(1, 301):
        desk.keeper.append(record(seq), desk.now_us)
        desk.go(SECOND // 10)
    desk.go(20 * SECOND)
    ledger = desk.store.ledger()
    assert ledger.pending == len(desk.committed) == 300
    assert ledger.payloads_evicted["bytes"] > 0
    assert desk.keeper.stats().lost == 0
    assert (ledger.payload_balance, ledger.balance) == (0, 0)
    desk.store.close(desk.now_us)


def test_payloads_of_a_damaged_file_are_counted_as_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    store = SqliteOutbox(path)
    store.open(0)
    store.commit(Changes(payloads=[payload(n, size=30_000) for n in range(1, 6)]), 0)
    store.commit(Changes(acknowledged_payloads=[store.payloads(limit=1)[0].number]), 0)
    store.close(0)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    store.open(0)
    store.commit(Changes(payloads=[payload(9)]), 0)
    ledger = store.ledger()
    assert ledger.payload_balance == 0
    assert (ledger.payloads_pending, ledger.payloads_acked) == (1, 1)
    assert ledger.payloads_set_aside == 4
    store.close(0)


def test_a_payload_the_disk_has_no_room_for_delays_no_answer(tmp_path: Path) -> None:
    store = SqliteOutbox(tmp_path / "outbox.db", max_pages=60)
    desk = Desk(store)
    desk.keeper.payloads.put(payload(1, size=400_000), desk.now_us)
    for seq in range(1, 11):
        desk.keeper.append(record(seq), desk.now_us)
        desk.go(SECOND // 10)
        assert desk.committed[-1] == seq
    assert len(desk.keeper.payloads) == 1
    assert "full" in desk.keeper.stats().last_error
    store.close(desk.now_us)


def test_reading_a_payload_of_a_store_that_is_away_is_tried_again_later(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder")
    store = SqliteOutbox(tmp_path / "state" / "outbox.db")
    with pytest.raises(Retryable):
        store.read_payload(1, offset_bytes=0, size_bytes=10)
