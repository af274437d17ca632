"""What every outbox store promises, whatever it is made of."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge.outbox.bounds import GAP_BYTES, RECORD_BYTES, Bounds
from edge.outbox.payload import PAYLOAD_BYTES
from edge.outbox.sqlite import SqliteOutbox
from edge.outbox.store import Changes, MemoryOutbox, OutboxStore, Watermark
from pipelines.result import Gap, GapReason
from tests.support.outboxes import OLD_RUN, RUN, SECOND, entry, payload

Make = Callable[[Bounds], OutboxStore]
HOUR = 3600 * SECOND


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made: list[OutboxStore] = []

    def build(bounds: Bounds) -> OutboxStore:
        store: OutboxStore
        if request.param == "memory":
            store = MemoryOutbox(bounds=bounds)
        else:
            store = SqliteOutbox(tmp_path / "outbox.db", bounds=bounds)
        store.open(0)
        made.append(store)
        return store

    yield build
    for store in made:
        store.close(0)


@pytest.fixture
def store(make: Make) -> OutboxStore:
    return make(Bounds())


def seqs(store: OutboxStore, *, limit: int = 100, max_bytes: int = 1 << 20) -> list[int]:
    return [s.key[2] for s in store.peek(limit=limit, max_bytes=max_bytes)]


def numbers(store: OutboxStore) -> dict[int, int]:
    return {s.key[2]: s.number for s in store.peek(limit=1000, max_bytes=1 << 30)}


def gap(first: int, last: int, reason: GapReason = GapReason.SHED, detail: str = "") -> Gap:
    return Gap(run=RUN, stream="door", first=first, last=last, reason=reason, detail=detail)


def test_what_is_committed_is_found_as_it_was(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(7, size=300, priority=2, age_us=40_000)]), SECOND)
    (stored,) = store.peek(limit=10, max_bytes=1 << 20)
    assert (stored.key, stored.priority, stored.data) == ((RUN, "door", 7), 2, b"\x07" * 300)
    assert store.uptime_us(SECOND) - stored.born_us == 40_000
    assert store.find((RUN, "door", 7)) == stored
    assert store.find((RUN, "door", 8)) is None


def test_looking_removes_nothing(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1), entry(2)]), 0)
    assert seqs(store) == seqs(store) == [1, 2]


def test_higher_priority_goes_first_then_the_oldest(store: OutboxStore) -> None:
    store.commit(
        Changes(entries=[entry(1, priority=0), entry(2), entry(3, priority=2), entry(4, age_us=SECOND)]),
        SECOND,
    )
    assert seqs(store) == [3, 4, 2, 1]


def test_a_look_is_bounded_by_rows_and_bytes_and_shows_one_record_however_large(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(n, size=1000) for n in range(1, 6)]), 0)
    assert seqs(store, limit=2) == [1, 2]
    assert seqs(store, max_bytes=2 * (1000 + RECORD_BYTES)) == [1, 2]
    assert seqs(store, max_bytes=1) == [1]


def test_records_in_flight_are_not_shown_again(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1), entry(2), entry(3)]), 0)
    busy = {numbers(store)[1], numbers(store)[2]}
    assert [s.key[2] for s in store.peek(limit=10, max_bytes=1 << 20, exclude=busy)] == [3]


def test_only_what_is_acknowledged_leaves_and_only_once_counts(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1), entry(2)]), 0)
    number = numbers(store)[1]
    store.commit(Changes(acknowledged=[number]), 0)
    store.commit(Changes(acknowledged=[number]), 0)
    ledger = store.ledger()
    assert seqs(store) == [2]
    assert (ledger.committed, ledger.acked, ledger.pending, ledger.balance) == (2, 1, 1, 0)


def test_a_second_record_of_one_identity_takes_the_place_of_the_first(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1, size=10)]), 0)
    store.commit(Changes(entries=[entry(1, size=20)]), 0)
    (stored,) = store.peek(limit=10, max_bytes=1 << 20)
    assert len(stored.data) == 20
    assert (store.ledger().committed, store.ledger().pending) == (1, 1)
    assert store.ledger().bytes == 20 + RECORD_BYTES


def test_acknowledging_what_was_sent_keeps_what_came_after(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1, size=10)]), 0)
    sent = numbers(store)[1]
    store.commit(Changes(entries=[entry(1, size=20)]), 0)
    store.commit(Changes(acknowledged=[sent]), 0)
    assert seqs(store) == [1]
    assert store.ledger().balance == 0


def test_numbers_are_never_given_twice(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1)]), 0)
    first = numbers(store)[1]
    store.commit(Changes(acknowledged=[first]), 0)
    store.commit(Changes(entries=[entry(2)]), 0)
    assert numbers(store)[2] > first


def test_a_record_too_old_is_given_up_counted_and_explained(make: Make) -> None:
    store = make(Bounds(max_age_us=HOUR))
    store.commit(Changes(entries=[entry(1, priority=2)]), 0)
    store.commit(Changes(entries=[entry(2)]), HOUR // 2)
    store.commit(Changes(), HOUR + 1)
    assert seqs(store) == [2]
    assert store.ledger().evicted == {"age": 1, "bytes": 0, "purged": 0}
    assert store.ledger().balance == 0
    assert [g.gap for g in store.gaps(limit=10)] == [gap(1, 1, GapReason.EVICTED, "age")]


def test_beyond_its_bytes_the_lowest_priority_goes_first_and_of_it_the_oldest(make: Make) -> None:
    size = 1000 - RECORD_BYTES
    store = make(Bounds(max_bytes=5000))
    store.commit(
        Changes(
            entries=[entry(n, size=size, priority=p) for n, p in ((1, 2), (2, 0), (3, 1), (4, 0), (5, 1))]
        ),
        0,
    )
    assert sorted(seqs(store)) == [1, 2, 3, 4, 5]
    store.commit(Changes(entries=[entry(6, size=size)]), SECOND)
    assert sorted(seqs(store)) == [1, 3, 5, 6]
    ledger = store.ledger()
    assert ledger.evicted == {"age": 0, "bytes": 2, "purged": 0}
    assert ledger.bytes <= 5000
    assert ledger.balance == 0


def test_neighbours_given_up_one_by_one_are_one_gap(make: Make) -> None:
    store = make(Bounds(max_bytes=5000))
    for n in range(1, 21):
        store.commit(Changes(entries=[entry(n, size=1000 - RECORD_BYTES)]), n)
    kept = sorted(seqs(store))
    assert [g.gap for g in store.gaps(limit=10)] == [gap(1, kept[0] - 1, GapReason.EVICTED, "bytes")]
    assert store.ledger().balance == 0


def test_gaps_stay_until_they_are_acknowledged(store: OutboxStore) -> None:
    store.commit(Changes(gaps=[gap(1, 3), gap(9, 9)]), 0)
    first, second = store.gaps(limit=10)
    assert (first.gap, second.gap) == (gap(1, 3), gap(9, 9))
    assert store.gaps(limit=10, exclude={first.number}) == [second]
    store.commit(Changes(acknowledged_gaps=[first.number]), 0)
    assert store.gaps(limit=10) == [second]
    assert (store.ledger().gaps, store.ledger().bytes) == (1, GAP_BYTES)


def test_a_gap_that_grew_while_it_was_sent_is_sent_again_whole(store: OutboxStore) -> None:
    store.commit(Changes(gaps=[gap(1, 3)]), 0)
    (sent,) = store.gaps(limit=10)
    store.commit(Changes(gaps=[gap(4, 6)]), 0)
    store.commit(Changes(acknowledged_gaps=[sent.number]), 0)
    assert [g.gap for g in store.gaps(limit=10)] == [gap(1, 6)]


def test_gaps_are_bounded_too(make: Make) -> None:
    store = make(Bounds(max_bytes=4096))
    store.commit(Changes(gaps=[gap(n, n) for n in range(1, 201, 2)]), 0)
    assert store.ledger().bytes <= 4096
    assert store.ledger().gaps + store.ledger().gaps_dropped == 100
    assert store.gaps(limit=1000)[-1].gap == gap(199, 199)


def test_watermarks_are_kept_until_their_run_has_ended(store: OutboxStore) -> None:
    old = Watermark(run=OLD_RUN, stream="door", reserved=256, settled=10)
    new = Watermark(run=RUN, stream="door", reserved=256, settled=0)
    store.commit(Changes(marks=[old, new]), 0)
    newer = Watermark(run=RUN, stream="door", reserved=512, settled=300)
    store.commit(Changes(marks=[newer]), 0)
    assert list(store.runs()) == [old, newer]
    store.commit(Changes(ended_runs=[OLD_RUN]), 0)
    assert list(store.runs()) == [newer]


def test_an_unreadable_record_is_set_aside_and_counted(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1)]), 0)
    store.commit(Changes(unreadable=[numbers(store)[1]]), 0)
    assert (store.ledger().set_aside, store.ledger().pending, store.ledger().balance) == (1, 0, 0)


def test_a_damaged_record_is_explained_by_a_gap(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1), entry(2)]), 0)
    store.commit(Changes(unreadable=[numbers(store)[1]]), 0)
    want = gap(1, 1, GapReason.INTERRUPTED, "record damaged")
    assert [g.gap for g in store.gaps(limit=10)] == [want]


def test_what_a_person_purges_is_counted_and_explained(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(n) for n in range(1, 5)]), 0)
    by_seq = numbers(store)
    store.commit(Changes(purged=[by_seq[2], by_seq[3], 10**9]), 0)
    store.commit(Changes(purged=[by_seq[2]]), 0)
    ledger = store.ledger()
    assert seqs(store) == [1, 4]
    assert ledger.evicted == {"age": 0, "bytes": 0, "purged": 2}
    assert (ledger.committed, ledger.pending, ledger.balance) == (4, 2, 0)
    assert [g.gap for g in store.gaps(limit=10)] == [gap(2, 3, GapReason.EVICTED, "purged")]


def test_what_is_written_to_flash_in_a_day_is_known_after_a_minute(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(n) for n in range(1, 50)]), 59 * SECOND)
    assert store.ledger().flash_gb_per_day == 0.0
    store.commit(Changes(), HOUR)
    ledger = store.ledger()
    assert ledger.flash_gb_per_day == pytest.approx(24 * ledger.flash_bytes_written / 1e9)


def test_age_counts_uptime_and_not_the_time_between_two_starts(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1)]), 10 * SECOND)
    store.close(20 * SECOND)
    store.open(5 * HOUR)
    (stored,) = store.peek(limit=1, max_bytes=1 << 20)
    assert store.uptime_us(5 * HOUR + SECOND) - stored.born_us == 11 * SECOND


def test_the_ledger_goes_on_after_a_restart(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(1), entry(2)], gaps=[gap(3, 4)]), 0)
    store.commit(Changes(acknowledged=[numbers(store)[1]]), 0)
    before = store.ledger()
    store.close(0)
    store.open(0)
    after = store.ledger()
    names = ("committed", "acked", "pending", "gaps", "bytes", "balance")
    assert [getattr(after, n) for n in names] == [getattr(before, n) for n in names]
    store.commit(Changes(entries=[entry(3)]), 0)
    assert numbers(store)[3] > numbers(store)[2]


# -- payloads ---------------------------------------------------------------------------------------------


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
