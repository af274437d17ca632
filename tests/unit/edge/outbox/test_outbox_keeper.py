"""What the outbox does with answers and acknowledgements, in virtual time."""

from edge.outbox.keeper import GAPS_EVERY_US
from edge.outbox.memory_outbox import MemoryOutbox
from pipelines.result import AnsweredBy, Gap, GapReason
from tests.support.outboxes import OLD_RUN, RUN, SECOND, Desk, live_ack, opened, record

FAR = AnsweredBy.FAR


def test_a_near_answer_is_committed_before_it_is_announced() -> None:
    desk = Desk()
    desk.keeper.append(record(1), desk.now_us)
    assert desk.committed == []
    desk.turn()
    assert desk.committed == [1]
    assert desk.store.find((RUN, "door", 1)) is not None


def test_no_answer_waits_for_the_store_to_tidy() -> None:
    class Tidied(MemoryOutbox):
        announced: list[int]

        def tidy(self) -> None:
            self.announced = list(desk.committed)

    store = Tidied()
    desk = Desk(store)
    desk.keeper.append(record(1), desk.now_us)
    desk.turn()
    assert store.announced == [1]


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
