"""What every outbox store promises, whatever it is made of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.outbox.bounds import GAP_BYTES, RECORD_BYTES, Bounds
from edge.outbox.store import Changes, OutboxStore, Watermark
from pipelines.result import Gap, GapReason
from tests.support.outbox_stores import HOUR, OUTBOX_KINDS, Make, numbers, outbox_stores, seqs
from tests.support.outboxes import OLD_RUN, RUN, SECOND, entry


@pytest.fixture(params=OUTBOX_KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    with outbox_stores(request.param, tmp_path) as build:
        yield build


@pytest.fixture
def store(make: Make) -> OutboxStore:
    return make(Bounds())


def gap(first: int, last: int, reason: GapReason = GapReason.SHED, detail: str = "") -> Gap:
    return Gap(run=RUN, stream="door", first=first, last=last, reason=reason, detail=detail)


def test_what_is_committed_is_found_as_it_was(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(7, size=300, priority=2, age_us=40_000)]), SECOND)
    (stored,) = store.peek(limit=10, max_bytes=1 << 20)
    assert (stored.key, stored.priority, stored.data) == ((RUN, "door", 7), 2, b"\x07" * 300)
    assert store.uptime_us(SECOND) - stored.born_us == 40_000
    assert store.find((RUN, "door", 7)) == stored
    assert store.find((RUN, "door", 8)) is None


@pytest.mark.parametrize("size", [1, 7, 8, 9, 63, 64, 65, 73, 200])
def test_a_group_of_any_size_is_found_whole_and_in_its_order(store: OutboxStore, size: int) -> None:
    before = [entry(1, stream=stream) for stream in ("door", "yard")]
    group = [entry(2 + n // 2, size=40 + n, stream=("door", "yard")[n % 2]) for n in range(size)]
    store.commit(Changes(entries=before), 0)
    store.commit(Changes(entries=group), 0)
    found = store.peek(limit=1000, max_bytes=1 << 30)
    assert [(s.key, s.data) for s in found] == [(e.key, e.data) for e in [*before, *group]]
    assert [s.number for s in found] == sorted({s.number for s in found})
    assert (store.ledger().committed, store.ledger().bytes) == (2 + size, sum(s.bytes for s in found))


def test_a_group_with_one_that_is_there_already_replaces_it(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(n) for n in range(1, 81)]), 0)
    store.commit(Changes(entries=[entry(n, size=50) for n in range(80, 160)]), 0)
    assert seqs(store, limit=1000) == list(range(1, 160))
    assert len(store.peek(limit=1000, max_bytes=1 << 30)[79].data) == 50
    assert (store.ledger().committed, store.ledger().balance) == (159, 0)


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


def test_what_a_worker_cannot_read_is_kept_aside_counted_and_explained(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(n) for n in (1, 2, 3)]), 0)
    size_bytes = store.ledger().bytes
    store.commit(Changes(refused={numbers(store)[2]: "torn"}), 0)
    ledger = store.ledger()
    assert seqs(store) == [1, 3]
    assert (ledger.pending, ledger.set_aside, ledger.refused, ledger.balance) == (2, 1, 1, 0)
    assert ledger.bytes == size_bytes + GAP_BYTES
    (explained,) = store.gaps(limit=10)
    assert explained.gap == gap(2, 2, GapReason.EVICTED, "refused by the worker")


def test_what_was_kept_aside_goes_up_once_more_when_asked_to(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(n) for n in (1, 2)]), 0)
    before, size_bytes = numbers(store)[2], store.ledger().bytes
    store.commit(Changes(refused={before: "torn"}), 0)
    store.commit(Changes(again=[before, 999]), 0)
    ledger = store.ledger()
    assert sorted(seqs(store)) == [1, 2]
    assert numbers(store)[2] > before
    assert (ledger.pending, ledger.set_aside, ledger.refused, ledger.balance) == (2, 0, 0, 0)
    assert ledger.bytes == size_bytes + GAP_BYTES


def test_what_was_kept_aside_is_forgotten_when_asked_to_and_was_counted_before(store: OutboxStore) -> None:
    store.commit(Changes(entries=[entry(n) for n in (1, 2)]), 0)
    aside = numbers(store)[2]
    store.commit(Changes(refused={aside: "torn"}), 0)
    store.commit(Changes(forgotten=[aside, numbers(store)[1], 999]), 0)
    ledger = store.ledger()
    assert seqs(store) == [1], "what waits is not forgotten"
    assert (ledger.pending, ledger.set_aside, ledger.refused, ledger.balance) == (1, 1, 0, 0)
    (waiting,) = store.peek(limit=9, max_bytes=1 << 20)
    assert ledger.bytes == waiting.bytes + GAP_BYTES
    store.commit(Changes(again=[aside]), 0)
    assert seqs(store) == [1]


def test_what_is_kept_aside_goes_first_when_there_is_no_room_and_when_it_is_old(make: Make) -> None:
    store = make(Bounds(max_bytes=8192, max_age_us=HOUR))
    store.commit(Changes(entries=[entry(1, size=3000, priority=2)]), 0)
    store.commit(Changes(refused={numbers(store)[1]: "torn"}), 0)
    store.commit(Changes(entries=[entry(2, size=3000, priority=0), entry(3, size=3000, priority=0)]), 0)
    assert (seqs(store), store.ledger().refused, store.ledger().set_aside) == ([2, 3], 0, 1)
    store.commit(Changes(refused={numbers(store)[2]: "torn"}), 0)
    store.commit(Changes(), HOUR + SECOND)
    ledger = store.ledger()
    assert (ledger.refused, ledger.set_aside, ledger.evicted_age, ledger.balance) == (0, 2, 1, 0)


def test_a_gap_that_no_worker_can_read_leaves_and_is_counted(store: OutboxStore) -> None:
    store.commit(Changes(gaps=[gap(1, 2), gap(9, 9)]), 0)
    kept_bytes = store.ledger().bytes
    store.commit(Changes(refused_gaps=[store.gaps(limit=9)[1].number, 999]), 0)
    assert [(g.gap.first, g.gap.last) for g in store.gaps(limit=9)] == [(1, 2)]
    ledger = store.ledger()
    assert (ledger.gaps, ledger.gaps_dropped, ledger.bytes) == (1, 1, kept_bytes - GAP_BYTES)
