"""What the outbox does with answers, acknowledgements and a failing disk, in virtual time."""

from pathlib import Path

from edge.links.base import Sent
from edge.outbox.keeper import GAPS_EVERY_US
from edge.outbox.sqlite import SqliteOutbox
from edge.outbox.store import Changes, Entry, MemoryOutbox
from edge.outbox.uplink import ACK_WITHIN_US
from pipelines.errors import Retryable
from pipelines.result import AnsweredBy, Gap, GapReason, Priority
from protos.wire.bulk import Ack
from tests.support.outboxes import AGENT, OLD_RUN, RUN, SECOND, Desk, live_ack, opened, record

FAR = AnsweredBy.FAR


def test_a_near_answer_is_committed_before_it_is_announced() -> None:
    desk = Desk()
    desk.keeper.append(record(1), desk.now_us)
    assert desk.committed == []
    desk.turn()
    assert desk.committed == [1]
    assert desk.store.find((RUN, "door", 1)) is not None


def test_what_came_together_is_committed_together() -> None:
    desk = Desk()
    for seq in range(1, 51):
        desk.keeper.append(record(seq), desk.now_us)
    desk.turn()
    assert desk.committed == list(range(1, 51))
    assert desk.keeper.stats().committed == 50


def test_a_near_answer_goes_up_and_leaves_only_after_its_batch_is_acknowledged() -> None:
    desk = Desk()
    desk.connect()
    desk.keeper.append(record(1), desk.now_us)
    desk.turn()
    assert [r.id.seq for b in desk.cloud.batches for r in opened(b)] == [1]
    assert desk.keeper.stats().pending == 1
    (sent,) = desk.deliver()
    assert (sent.detections, sent.answered_by) == (record(1).detections, AnsweredBy.NEAR)
    stats = desk.keeper.stats()
    assert (stats.acked, stats.pending, stats.balance, stats.empty) == (1, 0, 0, True)


def test_a_healthy_link_wears_no_flash_for_far_answers() -> None:
    desk = Desk()
    desk.connect()
    for seq in range(1, 101):
        desk.keeper.far_answered(record(seq, by=FAR), desk.now_us)
        desk.go(20_000)
        desk.keeper.acked_live(live_ack(seq, seq), desk.now_us)
        desk.deliver()
    desk.go(SECOND)
    desk.deliver()
    stats = desk.keeper.stats()
    assert (stats.committed, stats.far_pending, stats.outcomes_pending, stats.empty) == (0, 0, 0, True)


def test_an_acknowledged_far_answer_sends_its_outcome_without_boxes_within_a_second() -> None:
    desk = Desk()
    desk.connect()
    desk.keeper.far_answered(record(1, by=FAR), desk.now_us)
    desk.keeper.acked_live(live_ack(1, 1), desk.now_us)
    desk.go(SECOND)
    (sent,) = desk.deliver()
    assert (sent.detections, sent.latency_us, sent.on_time) == (None, 40_000, True)
    assert desk.keeper.stats().empty


def test_outcomes_travel_together() -> None:
    desk = Desk()
    desk.connect()
    for seq in range(1, 31):
        desk.keeper.far_answered(record(seq, by=FAR), desk.now_us)
        desk.keeper.acked_live(live_ack(seq, seq), desk.now_us)
        desk.go(33_000)
    desk.go(SECOND)
    assert len(desk.cloud.batches) <= 2
    assert len(desk.deliver()) == 30


def test_a_far_answer_without_acknowledgement_is_kept_whole_after_the_grace() -> None:
    desk = Desk()
    desk.keeper.far_answered(record(1, by=FAR), desk.now_us)
    desk.go(SECOND - 1000)
    assert desk.keeper.stats().committed == 0
    desk.go(2000)
    assert (desk.keeper.stats().pending, desk.keeper.stats().far_pending) == (1, 0)
    desk.connect()
    desk.turn()
    (sent,) = desk.deliver()
    assert sent.detections == record(1).detections
    assert desk.committed == []  # nobody waits for a far answer's commit


def test_a_late_far_result_does_not_delete_the_near_answer_that_was_given() -> None:
    desk = Desk()
    desk.keeper.append(record(1), desk.now_us)
    desk.turn()
    desk.keeper.acked_live(live_ack(1, 1), desk.now_us)
    desk.turn()
    assert desk.keeper.stats().pending == 1
    desk.connect()
    desk.turn()
    assert [r.answered_by for r in desk.deliver()] == [AnsweredBy.NEAR]


def test_a_late_far_result_flags_the_record_that_has_not_gone_up() -> None:
    desk = Desk()
    desk.keeper.append(record(1), desk.now_us)
    desk.turn()
    desk.keeper.append(record(2), desk.now_us)
    for seq in (1, 2, 3):  # stored, still in memory, unknown
        desk.keeper.late_far(record(seq).id, desk.now_us)
    desk.turn()
    assert desk.committed == [1, 2]
    desk.connect()
    desk.turn()
    assert sorted((r.id.seq, r.late_far) for r in desk.deliver()) == [(1, True), (2, True)]
    assert desk.keeper.stats().committed == 2


def test_a_flag_set_while_the_record_was_in_flight_goes_up_too() -> None:
    desk = Desk()
    desk.connect()
    desk.keeper.append(record(1), desk.now_us)
    desk.turn()
    desk.keeper.late_far(record(1).id, desk.now_us)
    desk.turn()
    seen = [r.late_far for r in desk.deliver()]
    desk.go(SECOND)
    seen += [r.late_far for r in desk.deliver()]
    assert seen[-1]
    assert desk.keeper.stats().empty


def test_outcomes_that_cannot_go_are_kept_in_the_store() -> None:
    desk = Desk()
    desk.keeper.far_answered(record(1, by=FAR), desk.now_us)
    desk.keeper.acked_live(live_ack(1, 1), desk.now_us)
    desk.go(3 * SECOND)
    assert (desk.keeper.stats().pending, desk.keeper.stats().outcomes_pending) == (1, 0)


def test_a_batch_without_acknowledgement_is_sent_again() -> None:
    desk = Desk()
    desk.connect()
    desk.keeper.append(record(1), desk.now_us)
    desk.turn()
    desk.go(ACK_WITHIN_US + SECOND)
    numbers = [b.batch for b in desk.cloud.batches]
    assert len(numbers) == len(set(numbers)) == 2
    desk.keeper.acked_bulk(Ack(batches=(numbers[0],)), desk.now_us)  # late, and it counts
    desk.turn()
    assert desk.keeper.stats().acked == 1


def test_a_batch_without_acknowledgement_says_that_the_connection_may_be_dead() -> None:
    desk = Desk()
    told: list[int] = []
    desk.overdue = lambda: told.append(desk.now_us)
    desk.connect()
    desk.keeper.append(record(1), desk.now_us)
    begun_us = desk.now_us
    desk.go(ACK_WITHIN_US - 1)
    assert told == []
    desk.go(2)
    assert [at_us - begun_us for at_us in told] == [ACK_WITHIN_US]
    assert len(desk.deliver()) == 2, "and it was sent again"
    desk.go(10 * SECOND)
    assert len(told) == 1


def test_a_link_slower_than_patience_gets_through_on_fresh_connections() -> None:
    """Each overdue batch brings a fresh connection; patience must grow all the same, or nothing ever arrives."""
    desk = Desk()
    desk.overdue = desk.connect
    desk.connect()
    desk.keeper.append(record(1), desk.now_us)
    desk.go(30 * SECOND)
    sent = len(desk.cloud.batches)
    assert sent <= 5, "2, 4, 8 and 16 s apart"
    assert len(desk.deliver()) == sent
    assert desk.keeper.stats().acked == 1


def test_a_new_connection_gets_at_once_what_the_old_one_lost() -> None:
    desk = Desk()
    desk.connect()
    desk.keeper.append(record(1), desk.now_us)
    desk.turn()
    desk.disconnect()
    desk.cloud.batches.clear()
    desk.connect()
    desk.turn()
    assert [r.id.seq for r in desk.deliver()] == [1]


def test_a_link_that_takes_nothing_is_asked_again_and_nothing_is_forgotten() -> None:
    desk = Desk()
    desk.connect()
    desk.cloud.sent = Sent.FULL
    desk.keeper.append(record(1), desk.now_us)
    desk.go(SECOND)
    assert desk.turns < 30
    desk.cloud.sent = Sent.ACCEPTED
    desk.go(SECOND)
    assert [r.id.seq for r in desk.deliver()] == [1]


def test_a_dropped_batch_is_sent_again_soon() -> None:
    desk = Desk()
    desk.connect()
    desk.keeper.append(record(1), desk.now_us)
    desk.turn()
    desk.keeper.backfill.dropped(desk.cloud.batches.pop().batch, desk.now_us)
    desk.go(SECOND // 2)
    assert [r.id.seq for r in desk.deliver()] == [1]


def test_a_long_outage_is_backfilled_each_record_once_and_the_important_first() -> None:
    desk = Desk()
    for seq in range(1, 1001):
        priority = Priority.HIGH if seq % 100 == 0 else Priority.NORMAL
        desk.keeper.append(record(seq, priority=priority), desk.now_us)
    desk.turn()
    desk.connect()
    order: list[int] = []
    for _ in range(200):
        desk.go(100_000)
        order += [r.id.seq for r in desk.deliver()]
    assert order[:10] == [n * 100 for n in range(1, 11)]
    assert sorted(order) == list(range(1, 1001))
    assert desk.keeper.stats().empty


def test_age_is_the_uptime_since_capture_when_it_is_sent() -> None:
    desk = Desk()
    desk.keeper.append(record(1), desk.now_us)
    desk.go(30 * SECOND)
    desk.connect()
    desk.turn()
    (sent,) = desk.deliver()
    assert sent.age_us == 30 * SECOND + 40_000


def test_gaps_are_written_as_ranges_about_every_two_seconds_and_go_up() -> None:
    desk = Desk()
    for seq in range(1, 51):
        desk.keeper.gap(stream="door", seq=seq, reason=GapReason.SHED, detail="overload", now_us=desk.now_us)
    desk.go(GAPS_EVERY_US // 2)
    assert desk.store.ledger().gaps == 0
    desk.go(GAPS_EVERY_US)
    assert desk.store.ledger().gaps == 1
    desk.connect()
    desk.turn()
    want = Gap(run=RUN, stream="door", first=1, last=50, reason=GapReason.SHED, detail="overload")
    assert [g for b in desk.cloud.batches for g in b.gaps] == [want]
    assert not desk.keeper.stats().empty
    desk.deliver()
    assert desk.keeper.stats().empty


def test_a_flush_does_not_wait_for_company() -> None:
    desk = Desk()
    desk.connect()
    desk.keeper.gap(stream="door", seq=1, reason=GapReason.SHED, detail="", now_us=desk.now_us)
    desk.keeper.far_answered(record(2, by=FAR), desk.now_us)
    desk.keeper.acked_live(live_ack(2, 2), desk.now_us)
    desk.keeper.flush()
    desk.turn()
    desk.deliver()
    assert desk.keeper.stats().empty


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


def test_what_a_killed_run_left_open_is_entered_as_interrupted_at_the_next_start() -> None:
    store = MemoryOutbox()
    killed = Desk(store, run=OLD_RUN)
    for seq in range(1, 11):
        killed.keeper.captured("door", seq)
        killed.keeper.append(record(seq, run=OLD_RUN), killed.now_us)
    killed.keeper.captured("door", 11)
    killed.turn()
    Desk(store).turn()
    (gap,) = [g.gap for g in store.gaps(limit=10)]
    assert (gap.run, gap.first, gap.last, gap.reason) == (OLD_RUN, 11, 257, GapReason.INTERRUPTED)
    assert all(mark.run == RUN for mark in store.runs())


def test_what_is_only_in_memory_is_not_called_settled() -> None:
    store = MemoryOutbox()
    killed = Desk(store, run=OLD_RUN)
    for seq in (1, 2, 3):
        killed.keeper.captured("door", seq)
    killed.keeper.far_answered(record(1, by=FAR, run=OLD_RUN), killed.now_us)
    killed.keeper.gap(stream="door", seq=2, reason=GapReason.SHED, detail="", now_us=killed.now_us)
    killed.keeper.append(record(3, run=OLD_RUN), killed.now_us)
    killed.turn()
    Desk(store).turn()
    assert [(g.gap.first, g.gap.reason) for g in store.gaps(limit=10)] == [(1, GapReason.INTERRUPTED)]


def test_a_clean_end_keeps_everything_and_interrupts_nothing() -> None:
    store = MemoryOutbox()
    desk = Desk(store, run=OLD_RUN)
    for seq in range(1, 6):
        desk.keeper.captured("door", seq)
    desk.keeper.append(record(1, run=OLD_RUN), desk.now_us)
    desk.keeper.far_answered(record(2, by=FAR, run=OLD_RUN), desk.now_us)
    desk.keeper.far_answered(record(3, by=FAR, run=OLD_RUN), desk.now_us)
    desk.keeper.gap(stream="door", seq=4, reason=GapReason.SHED, detail="stopping", now_us=desk.now_us)
    desk.keeper.append(record(5, run=OLD_RUN), desk.now_us)
    assert desk.keeper.finish(desk.now_us)
    desk.store.close(desk.now_us)
    assert desk.store.ledger().pending == 4
    (mark,) = desk.store.runs()
    assert (mark.reserved, mark.settled) == (5, 5)
    Desk(store).turn()
    assert [g.gap.reason for g in store.gaps(limit=10)] == [GapReason.SHED]


def test_an_idle_outbox_rests() -> None:
    desk = Desk()
    desk.connect()
    desk.go(60 * SECOND)
    assert desk.turns < 70


def test_records_of_an_earlier_run_go_up_under_their_own_run(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    first = Desk(SqliteOutbox(path), run=OLD_RUN)
    first.keeper.append(record(1, run=OLD_RUN), first.now_us)
    first.turn()
    first.store.close(first.now_us)
    second = Desk(SqliteOutbox(path))
    second.connect()
    second.go(SECOND)
    (sent,) = second.deliver()
    assert (sent.id.agent, sent.id.run, sent.id.seq) == (AGENT, OLD_RUN, 1)
    second.store.close(second.now_us)
