"""Payloads from the outbox to the cloud, step by step in virtual time."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.payload import PayloadEntry
from edge.outbox.sending.pacing import SMALL_BYTES
from edge.outbox.sending.payload_uplink import OFFER_BYTES, OFFERED_AT_MOST, PIECES_IN_FLIGHT
from pipelines.errors import Retryable
from protos.wire.bulk import BulkBatch, Have
from protos.wire.session import Error, Limits, RejectReason
from tests.support.outboxes import LIMITS, SECOND, Desk, opened, payload, record
from tests.support.payload_house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def haves(house: House) -> list[Have]:
    return [m for m in house.up if isinstance(m, Have)]


def step(house: House) -> None:
    """Everything on its way arrives, and 100 ms pass."""
    while house.up or house.down:
        house.arrive_up()
        house.arrive_down()
    house.turn(100_000)


def test_a_payload_goes_up_in_pieces_that_fit_the_link_and_is_forgotten_when_the_cloud_keeps_it(
    house: House,
) -> None:
    house.keep(payload(1, size=200_000))
    house.settle()
    assert house.in_cloud(1) == house.kept[1].data
    assert house.pieces > 3
    assert house.piece_bytes == 200_000
    assert house.outbox.ledger().payloads_acked == 1
    assert house.parts() == []


def test_an_upload_that_is_cut_off_sends_no_byte_twice(house: House) -> None:
    house.keep(payload(1, size=300_000))
    house.connect()
    while house.pieces < 3:
        house.turn(0 if house.up or house.down else 100_000)
        house.arrive_up()
        house.arrive_down()
    assert 0 < house.piece_bytes < 300_000, "it is cut off in the middle"
    house.connect()
    house.kill_worker()
    house.settle()
    assert house.in_cloud(1) == house.kept[1].data
    assert house.piece_bytes == 300_000


def test_what_the_cloud_has_costs_no_piece(house: House) -> None:
    first = payload(1, size=50_000)
    house.keep(first)
    house.settle()
    before = house.pieces
    again = PayloadEntry(shown=replace(first.shown, key=(*first.shown.key[:2], 2)), age_us=0, data=first.data)
    house.keep(again)
    house.settle()
    assert house.pieces == before
    assert house.in_cloud(2) == first.data


def test_two_frames_of_one_content_are_sent_once(house: House) -> None:
    first = payload(1, size=50_000)
    again = PayloadEntry(shown=replace(first.shown, key=(*first.shown.key[:2], 2)), age_us=0, data=first.data)
    house.keep(first)
    house.keep(again)
    house.settle()
    assert house.piece_bytes == 50_000
    assert (house.in_cloud(1), house.in_cloud(2)) == (first.data, first.data)


def test_what_matters_more_goes_before_what_was_offered_first(house: House) -> None:
    for seq in (1, 2, 3):
        house.keep(payload(seq, size=1_000_000, priority=0))
    house.connect()
    step(house)
    step(house)
    house.keep(payload(9, size=20_000, priority=2))
    order: list[int] = []
    for _ in range(400):
        step(house)
        house.writer.work()
        order += [seq for seq in (1, 2, 3, 9) if house.in_cloud(seq) and seq not in order]
    assert order[:2] == [1, 9]
    assert set(order) == {1, 2, 3, 9}


@pytest.mark.parametrize(
    ("bytes_per_s", "offered"), [(1e5, SMALL_BYTES // OFFER_BYTES), (1e8, OFFERED_AT_MOST)]
)
def test_an_offer_is_no_larger_than_any_other_chunk(house: House, bytes_per_s: float, offered: int) -> None:
    for seq in range(1, 101):
        house.keep(payload(seq, size=1000 + seq))
    house.keeper.backfill.pacing.observe(
        in_flight_bytes=0, over_budget=False, bytes_per_s=bytes_per_s, queueing_us=0, now_us=house.now_us
    )
    house.connect()
    house.turn()
    assert [len(have.payloads) for have in haves(house)] == [offered]
    house.settle()
    assert {seq for seq in house.kept if house.in_cloud(seq)} == set(range(1, 101))


def test_several_pieces_are_under_way_and_no_more_than_a_worker_lets_wait(house: House) -> None:
    house.keep(payload(1, size=4_000_000))
    house.connect()
    for _ in range(3):
        step(house)
    for _ in range(20):
        house.turn(10_000)
    assert 1 < len(house.up) <= PIECES_IN_FLIGHT
    house.settle()
    assert house.in_cloud(1) == house.kept[1].data


def test_a_payload_damaged_on_the_gateway_is_set_aside_and_counted(house: House) -> None:
    house.keep(payload(1, size=5000))
    house.keep(payload(2, size=5000))
    house.outbox.let_go()
    with closing(sqlite3.connect(house.root / "outbox.db")) as db, db:
        db.execute("UPDATE payloads SET data = zeroblob(5000) WHERE seq = 1")
    house.settle()
    ledger = house.outbox.ledger()
    assert (ledger.payloads_set_aside, ledger.payloads_acked, ledger.payload_balance) == (1, 1, 0)
    assert house.in_cloud(1) is None
    assert house.in_cloud(2) == house.kept[2].data


def test_a_worker_that_keeps_no_payloads_is_offered_none_and_nothing_waits_for_it(house: House) -> None:
    house.keep(payload(1))
    house.keeper.backfill.reachable(connected=True, limits=LIMITS, now_us=house.now_us)
    house.connected = True
    house.turn(10 * SECOND)
    assert house.up == []
    assert house.keeper.stats().payloads_pending == 1
    assert house.keeper.stats().empty


def test_what_the_worker_can_never_take_is_given_up_and_counted(house: House) -> None:
    house.keep(payload(1, size=5000))
    house.keep(
        replace(
            payload(2),
            shown=replace(payload(2).shown, encoding=replace(payload(2).shown.encoding, codec="odd")),
        )
    )
    house.connected = True
    house.session = None  # type: ignore[assignment]
    house.connect()
    small: Limits = replace(LIMITS, payload_bytes=4000)
    house.keeper.backfill.reachable(connected=True, limits=small, now_us=house.now_us)
    house.settle()
    assert house.outbox.ledger().payloads_refused == 2
    assert house.keeper.stats().payload_balance == 0


def test_an_answer_that_does_not_come_is_asked_for_again_more_patiently(house: House) -> None:
    house.keep(payload(1))
    house.connect()
    asked: list[int] = []
    for _ in range(600):
        house.turn(100_000)
        if haves(house):
            asked.append(house.now_us)
            house.up.clear()
    gaps = [b - a for a, b in pairwise(asked)]
    assert len(gaps) >= 3
    assert all(b >= 1.5 * a for a, b in pairwise(gaps))


def test_a_connection_that_may_be_dead_is_told_and_a_slow_disk_is_not_mistaken_for_one(house: House) -> None:
    told = house.overdue_us
    house.keep(payload(1, size=3000))
    house.connect()
    for _ in range(100):
        step(house)  # it arrives whole, and the worker's disk does not keep it
    assert house.piece_bytes == 3000
    assert told == []
    house.writer.work()
    step(house)
    assert house.outbox.ledger().payloads_acked == 1
    house.keep(payload(2))
    for _ in range(100):
        house.turn(100_000)
        house.up.clear()
    assert told


@pytest.mark.parametrize("what", ["record", "payload"])
def test_what_is_committed_is_synced_whatever_it_is(tmp_path: Path, what: str) -> None:
    class Synced(SqliteOutbox):
        syncs = 0

        def sync(self) -> None:
            self.syncs += 1
            super().sync()

    store = Synced(tmp_path / "outbox.db", durability="power")
    desk = Desk(store)
    desk.go(SECOND)
    before = store.syncs
    if what == "record":
        desk.keeper.append(record(1), desk.now_us)
    else:
        desk.keeper.payloads.put(payload(1), desk.now_us)
    desk.go(SECOND)
    assert store.syncs == before + 1
    store.close(desk.now_us)


def test_results_go_before_any_payload() -> None:
    desk = Desk()
    desk.connect()
    desk.keeper.backfill.reachable(
        connected=True, limits=replace(LIMITS, payload_bytes=1 << 20), now_us=desk.now_us
    )
    desk.keeper.payloads.put(payload(99, priority=2), desk.now_us)
    for seq in range(1, 4):
        desk.keeper.append(record(seq), desk.now_us)
    desk.turn()
    (first,) = desk.cloud.batches
    assert [r.id.seq for r in opened(first)] == [1, 2, 3]
    desk.go(SECOND)
    assert [p.id.seq for have in desk.cloud.haves for p in have.payloads] == [99]


def test_payloads_are_committed_after_records_and_survive_a_store_that_fails_for_now() -> None:
    desk = Desk()
    store = desk.store
    store.fail = Retryable("database or disk is full")  # type: ignore[attr-defined]
    desk.keeper.payloads.put(payload(1), desk.now_us)
    desk.keeper.append(record(1), desk.now_us)
    desk.go(SECOND)
    assert desk.keeper.stats().payloads_uncommitted == 1
    store.fail = None  # type: ignore[attr-defined]
    desk.go(10 * SECOND)
    assert (store.ledger().payloads_pending, store.ledger().pending) == (1, 1)
    (kept,) = store.payloads(limit=1)
    assert store.uptime_us(desk.now_us) - kept.born_us >= 11 * SECOND


def test_payloads_memory_cannot_hold_are_lost_the_least_important_first_and_counted() -> None:
    desk = Desk()
    desk.store.fail = Retryable("full")  # type: ignore[attr-defined]
    for seq in range(1, 6):
        desk.keeper.payloads.put(payload(seq, size=10 << 20, priority=2 * (seq == 1)), desk.now_us)
    assert (len(desk.keeper.payloads), desk.keeper.payloads.lost) == (3, 2)
    desk.store.fail = None  # type: ignore[attr-defined]
    desk.go(SECOND)
    assert [p.shown.key[2] for p in desk.store.payloads(limit=9)] == [1, 4, 5]


def test_while_the_worker_has_no_room_for_more_the_outbox_sleeps_until_something_is_heard_or_overdue(
    house: House,
) -> None:
    house.keep(payload(1, size=1000))
    for seq in (2, 3):
        house.keeper.append(record(seq), house.now_us)
    house.connect()
    house.turn()
    batch = next(m.batch for m in house.up if isinstance(m, BulkBatch))
    house.keeper.backfill.refused(
        Error(reason=RejectReason.QUEUE_FULL, text="too much waits", batch=batch), house.now_us
    )
    house.turn(SECOND)
    assert any(isinstance(m, BulkBatch) and m.batch > batch for m in house.up), (
        "sent again, and all there is room for"
    )
    assert haves(house) == []
    assert house.keeper.turn(house.now_us) > house.now_us
