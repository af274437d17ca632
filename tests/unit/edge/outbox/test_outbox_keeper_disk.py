"""What the outbox does while its disk fails or is full, in virtual time: nothing is lost unsaid."""

from pathlib import Path

from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.memory_outbox import MemoryOutbox
from edge.outbox.store import Changes, Entry
from pipelines.errors import Retryable
from pipelines.result import GapReason, Priority
from tests.support.outboxes import RUN, SECOND, Desk, record


def test_while_the_disk_fails_answers_wait_in_memory_and_are_committed_when_it_heals() -> None:
    store = MemoryOutbox()
    desk = Desk(store)
    store.fail = Retryable("database or disk is full")
    desk.keeper.append(record(1), desk.now_us)
    desk.go(10 * SECOND)
    stats = desk.keeper.stats()
    assert (desk.committed, stats.uncommitted, stats.last_error) == ([], 1, "database or disk is full")
    assert desk.turns < 60
    store.fail = None
    desk.go(6 * SECOND)
    assert (desk.committed, desk.keeper.stats().uncommitted, desk.keeper.stats().last_error) == ([1], 0, "")


def test_memory_is_bounded_while_the_disk_fails_and_what_is_lost_is_counted_and_explained() -> None:
    store = MemoryOutbox()
    desk = Desk(store, max_memory_records=10)
    store.fail = Retryable("read-only")
    for seq in range(1, 31):
        priority = Priority.HIGH if seq == 1 else Priority.NORMAL
        desk.keeper.append(record(seq, priority=priority), desk.now_us)
        desk.turn()
    assert (desk.keeper.stats().uncommitted, desk.keeper.stats().lost) == (10, 20)
    store.fail = None
    desk.go(10 * SECOND)
    assert desk.committed == [1, *range(22, 31)]
    (gap,) = [g.gap for g in store.gaps(limit=10)]
    assert (gap.first, gap.last, gap.reason, gap.detail) == (2, 21, GapReason.EVICTED, "memory")


def test_with_a_link_and_no_disk_answers_still_reach_the_cloud() -> None:
    store = MemoryOutbox()
    desk = Desk(store)
    desk.connect()
    store.fail = Retryable("read-only")
    desk.keeper.append(record(1), desk.now_us)
    desk.turn()
    desk.turn()
    assert [r.id.seq for r in desk.deliver()] == [1]
    stats = desk.keeper.stats()
    assert (desk.committed, stats.sent_uncommitted, stats.uncommitted, stats.empty) == ([], 1, 0, True)


def test_a_full_disk_heals_as_the_cloud_takes_what_it_holds(tmp_path: Path) -> None:
    store = SqliteOutbox(tmp_path / "outbox.db", max_pages=96)
    desk = Desk(store)
    for seq in range(1, 121):
        desk.keeper.append(record(seq, boxes=40), desk.now_us)
        desk.go(10_000)
    desk.go(20 * SECOND)
    full = desk.keeper.stats()
    assert full.pending > 0
    assert full.uncommitted > 0
    assert "full" in full.last_error
    desk.connect()
    up: set[int] = set()
    for _ in range(100):
        desk.go(200_000)
        up |= {r.id.seq for r in desk.deliver()}
    assert up == set(range(1, 121))
    stats = desk.keeper.stats()
    assert (stats.empty, stats.balance, stats.lost, stats.last_error) == (True, 0, 0, "")
    desk.store.close(desk.now_us)


def test_a_frame_that_waits_in_memory_is_not_settled_by_another_commit(tmp_path: Path) -> None:
    store = SqliteOutbox(tmp_path / "outbox.db", max_pages=96)
    desk = Desk(store)
    for seq in range(1, 121):
        desk.keeper.captured("door", seq)
        desk.keeper.append(record(seq, boxes=40), desk.now_us)
    desk.go(20 * SECOND)
    (mark,) = store.runs()
    stored = {s.key[2] for s in store.peek(limit=1000, max_bytes=1 << 30)}
    assert set(range(1, mark.settled + 1)) <= stored
    assert len(stored) < 120
    desk.store.close(desk.now_us)


def test_a_record_that_cannot_be_read_is_set_aside_and_holds_up_nothing() -> None:
    desk = Desk()
    bad = Entry(key=(RUN, "door", 1), priority=2, age_us=0, data=b"\xff\xff\xff")
    desk.store.commit(Changes(entries=[bad]), desk.now_us)
    desk.keeper.append(record(2), desk.now_us)
    desk.connect()
    desk.go(SECOND)
    assert [r.id.seq for r in desk.deliver()] == [2]
    stats = desk.keeper.stats()
    assert (stats.set_aside, stats.pending, stats.balance) == (1, 0, 0)


def test_that_the_disk_takes_nothing_stays_known_until_it_took_something() -> None:
    store = MemoryOutbox()
    desk = Desk(store)
    desk.connect()
    known = [desk.keeper.stats().writes]
    store.fail = Retryable("read-only")
    for seq in (1, 2):
        desk.keeper.append(record(seq), desk.now_us)
        desk.turn()
        desk.turn()
        desk.deliver()
        desk.go(SECOND)
        known.append(desk.keeper.stats().writes)  # also while all is gone up and nothing is left to write
    store.fail = None
    desk.keeper.append(record(3), desk.now_us)
    desk.go(6 * SECOND)
    assert [*known, desk.keeper.stats().writes] == [True, False, False, True]
