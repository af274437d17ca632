"""What every outbox store promises of payloads, whatever it is made of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.outbox.bounds import RECORD_BYTES, Bounds
from edge.outbox.payload import PAYLOAD_BYTES
from edge.outbox.store import Changes, OutboxStore
from tests.support.outbox_stores import HOUR, OUTBOX_KINDS, Make, numbers, outbox_stores, seqs
from tests.support.outboxes import SECOND, entry, payload


@pytest.fixture(params=OUTBOX_KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    with outbox_stores(request.param, tmp_path) as build:
        yield build


@pytest.fixture
def store(make: Make) -> OutboxStore:
    return make(Bounds())


def pictures(store: OutboxStore) -> list[int]:
    return [p.shown.key[2] for p in store.payloads(limit=1000)]


def read_whole(store: OutboxStore, number: int, *, step: int = 300) -> bytes:
    parts: list[bytes] = []
    while part := store.read_payload(number, offset_bytes=step * len(parts), size_bytes=step):
        parts.append(part)
    return b"".join(parts)


def test_a_payload_is_found_as_it_was_and_read_in_pieces(store: OutboxStore) -> None:
    kept = payload(7, priority=2, size=10_001, age_us=40_000)
    store.commit(Changes(payloads=[kept]), SECOND)
    (found,) = store.payloads(limit=10)
    assert (found.shown, found.size_bytes) == (kept.shown, 10_001)
    assert store.uptime_us(SECOND) - found.born_us == 40_000
    assert read_whole(store, found.number) == kept.data
    assert store.read_payload(found.number, offset_bytes=10_000, size_bytes=300) == kept.data[-1:]
    assert store.read_payload(found.number, offset_bytes=99_999, size_bytes=300) == b""
    assert store.read_payload(found.number + 1, offset_bytes=0, size_bytes=300) is None


def test_payloads_go_by_priority_then_age_and_those_on_their_way_are_not_shown(store: OutboxStore) -> None:
    new = [payload(1, priority=0), payload(2), payload(3, priority=2), payload(4, age_us=SECOND)]
    store.commit(Changes(payloads=new), SECOND)
    assert pictures(store) == [3, 4, 2, 1]
    first, second = store.payloads(limit=2)
    assert [p.shown.key[2] for p in store.payloads(limit=2, exclude={first.number, second.number})] == [2, 1]


def test_a_payload_leaves_acknowledged_refused_or_set_aside_and_the_law_holds(store: OutboxStore) -> None:
    store.commit(Changes(payloads=[payload(n) for n in range(1, 5)]), 0)
    numbers = [p.number for p in store.payloads(limit=10)]
    store.commit(
        Changes(
            acknowledged_payloads=numbers[:1],
            refused_payloads=numbers[1:2],
            unreadable_payloads=[numbers[2], 9999],
        ),
        0,
    )
    ledger = store.ledger()
    assert pictures(store) == [4]
    assert (ledger.payloads_committed, ledger.payloads_pending) == (4, 1)
    assert (ledger.payloads_acked, ledger.payloads_refused, ledger.payloads_set_aside) == (1, 1, 1)
    assert (ledger.payload_balance, ledger.balance) == (0, 0)
    assert ledger.bytes == ledger.payload_bytes == 1000 + PAYLOAD_BYTES


def test_a_record_and_its_payload_leave_on_their_own(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1)], payloads=[payload(1)]), 0)
    store.commit(Changes(acknowledged=[numbers(store)[1]]), 0)
    assert (seqs(store), pictures(store)) == ([], [1])


def test_a_purged_record_takes_its_payload_along_and_a_payload_is_purged_alone(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1), entry(2)], payloads=[payload(n) for n in (1, 2, 3)]), 0)
    third = next(p.number for p in store.payloads(limit=9) if p.shown.key[2] == 3)
    store.commit(Changes(purged=[numbers(store)[1], 9999], purged_payloads=[third, 9999]), 0)
    assert (seqs(store), pictures(store)) == ([2], [2])
    ledger = store.ledger()
    assert (ledger.evicted["purged"], ledger.payloads_evicted["purged"]) == (1, 2)
    assert (ledger.balance, ledger.payload_balance) == (0, 0)
    assert [g.gap.detail for g in store.gaps(limit=9)] == ["purged"]


def test_a_second_payload_of_one_frame_stands_for_both(store: OutboxStore) -> None:
    store.commit(Changes(payloads=[payload(1, size=500)]), 0)
    store.commit(Changes(payloads=[payload(1, size=700)]), 0)
    (found,) = store.payloads(limit=10)
    assert found.size_bytes == 700
    assert (store.ledger().payload_balance, store.ledger().bytes) == (0, 700 + PAYLOAD_BYTES)


def test_payloads_are_dropped_before_any_result_and_counted(make: Make) -> None:
    size = 1000 - RECORD_BYTES
    store = make(Bounds(max_bytes=6000))
    store.commit(
        Changes(
            entries=[entry(n, size=size, priority=0) for n in (1, 2, 3)],
            payloads=[payload(n, size=1000 - PAYLOAD_BYTES, priority=p) for n, p in ((1, 1), (2, 2), (3, 1))],
        ),
        0,
    )
    store.commit(Changes(entries=[entry(4, size=size, priority=0), entry(5, size=size, priority=0)]), 0)
    assert pictures(store) == [2]
    assert sorted(seqs(store)) == [1, 2, 3, 4, 5]
    ledger = store.ledger()
    assert ledger.payloads_evicted == {"age": 0, "bytes": 2, "purged": 0}
    assert ledger.evicted == {"age": 0, "bytes": 0, "purged": 0}
    assert (ledger.payload_balance, ledger.balance) == (0, 0)


def test_without_coarsening_a_payload_outlasts_results_of_lower_priority(make: Make) -> None:
    size = 1000 - RECORD_BYTES
    store = make(Bounds(max_bytes=5000, coarsen=False))
    kept = [entry(n, size=size, priority=p) for n, p in ((1, 0), (2, 0), (3, 1), (4, 1))]
    store.commit(Changes(entries=kept, payloads=[payload(9, size=1000 - PAYLOAD_BYTES)]), 0)
    store.commit(Changes(entries=[entry(5, size=size, priority=2)]), 0)
    assert pictures(store) == [9]
    assert 1 not in seqs(store)
    store.commit(Changes(entries=[entry(6, size=size, priority=2), entry(7, size=size, priority=2)]), 0)
    assert pictures(store) == []
    assert sorted(seqs(store)) == [3, 4, 5, 6, 7][-len(seqs(store)) :]


def test_a_payload_too_old_is_given_up_and_counted(make: Make) -> None:
    store = make(Bounds(max_age_us=HOUR))
    store.commit(Changes(payloads=[payload(1, priority=2)]), 0)
    store.commit(Changes(payloads=[payload(2)]), HOUR // 2)
    store.commit(Changes(), HOUR + 1)
    assert pictures(store) == [2]
    assert store.ledger().payloads_evicted == {"age": 1, "bytes": 0, "purged": 0}
    assert store.ledger().payload_balance == 0


def test_payloads_make_room_for_what_the_disk_has_none_for(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1)], payloads=[payload(n, priority=n % 3) for n in range(1, 7)]), 0)
    store.commit(Changes(room_for_bytes=2000), 0)
    assert pictures(store) == [2, 5, 1, 4]
    assert seqs(store) == [1]
    store.commit(Changes(room_for_bytes=1 << 30), 0)
    assert pictures(store) == []
    assert store.ledger().payloads_evicted == {"age": 0, "bytes": 6, "purged": 0}


def test_payloads_and_their_law_go_on_after_a_restart(store: OutboxStore) -> None:
    store.commit(Changes(payloads=[payload(n, size=5000) for n in (1, 2, 3)]), 0)
    store.commit(Changes(acknowledged_payloads=[store.payloads(limit=1)[0].number]), 0)
    before = store.ledger()
    store.close(0)
    store.open(0)
    after = store.ledger()
    names = (
        "payloads_committed",
        "payloads_acked",
        "payloads_pending",
        "payload_bytes",
        "payload_balance",
        "bytes",
    )
    assert [getattr(after, n) for n in names] == [getattr(before, n) for n in names]
    first = store.payloads(limit=1)[0]
    assert read_whole(store, first.number) == payload(2, size=5000).data
