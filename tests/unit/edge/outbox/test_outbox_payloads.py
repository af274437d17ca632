"""The outbox file with payloads in it: full, damaged, away."""

from pathlib import Path

import pytest

from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.store import Changes
from pipelines.errors import Retryable
from tests.support.outboxes import SECOND, Desk, payload, record


def test_a_full_disk_lets_go_of_payloads_before_any_answer_waits(tmp_path: Path) -> None:
    desk = Desk(SqliteOutbox(tmp_path / "outbox.db", max_pages=480))
    for seq in range(1, 200):
        desk.keeper.payloads.put(payload(seq, size=40_000, priority=0), desk.now_us)
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
    store = SqliteOutbox(tmp_path / "outbox.db", max_pages=240)
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
