"""A batch that a worker cannot read: the bad record is found and set aside, the rest goes up, in virtual time."""

import logging
from dataclasses import replace

import pytest

from edge.outbox.memory_outbox import MemoryOutbox
from edge.outbox.sending.doubts import MOST, PAUSE_AT_MOST_US
from edge.outbox.store import Changes
from pipelines.result import Gap, GapReason
from protos.wire.bulk import Ack
from protos.wire.session import Error, RejectReason
from tests.support.outboxes import LIMITS, RUN, SECOND, Desk, opened, record


class Picky:
    """The cloud at a desk: takes every batch without one of `bad` in it, refuses the others by number."""

    def __init__(self, desk: Desk, *bad: int, reads: bool = True, bad_gap: int = 0) -> None:
        self.desk = desk
        self.bad_gap = bad_gap  # its first frame
        self.bad = set(bad)
        self.reads = reads
        self.taken: list[int] = []
        self.gaps: list[tuple[int, int, str]] = []
        self.refusals = 0
        desk.connect()

    def answer(self) -> None:
        batches, self.desk.cloud.batches = self.desk.cloud.batches, []
        for batch in batches:
            seqs = [r.id.seq for r in opened(batch)] if batch.records_zstd else []
            gaps = [g.first for g in batch.gaps]
            if not self.reads or self.bad & set(seqs) or self.bad_gap in gaps:
                self.refusals += 1
                error = Error(
                    reason=RejectReason.BAD_PAYLOAD, text="a record is torn", retry=True, batch=batch.batch
                )
                self.desk.keeper.backfill.refused(error, self.desk.now_us)
            else:
                self.taken += seqs
                self.gaps += [(g.first, g.last, g.detail) for g in batch.gaps]
                self.desk.keeper.acked_bulk(Ack(batches=(batch.batch,)), self.desk.now_us)

    def go(self, seconds: float) -> None:
        end_us = self.desk.now_us + int(seconds * SECOND)
        step_us = 20_000 if seconds <= 5 else 500_000
        while self.desk.now_us < end_us:
            self.desk.go(step_us)
            self.answer()


def full_desk(count: int) -> Desk:
    desk = Desk()
    for seq in range(1, count + 1):
        desk.keeper.append(record(seq), desk.now_us)
    return desk


@pytest.mark.parametrize("bad", [[1], [37], [100], [3, 4, 90]])
def test_bad_records_are_set_aside_and_every_other_goes_up(
    bad: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    desk = full_desk(100)
    cloud = Picky(desk, *bad)
    cloud.go(30)
    assert sorted(cloud.taken) == [n for n in range(1, 101) if n not in bad]
    assert [caplog.text.count(f"/door/{n} is set aside, the worker cannot read it") for n in bad] == [
        1
    ] * len(bad)
    stats = desk.keeper.stats()
    assert (stats.pending, stats.acked, stats.set_aside, stats.refused) == (
        0,
        100 - len(bad),
        len(bad),
        len(bad),
    )
    assert (stats.balance, stats.batches_unread, stats.unread_words) == (0, cloud.refusals, "")
    assert {(first, last) for first, last, _ in cloud.gaps} >= {(n, n) for n in bad if n + 1 not in bad}
    assert cloud.refusals < 40 * len(bad)
    assert stats.empty


def test_what_is_set_aside_is_not_sent_again_until_somebody_says_so() -> None:
    desk = full_desk(20)
    cloud = Picky(desk, 7)
    cloud.go(20)
    asked = cloud.refusals
    cloud.go(60)
    assert cloud.refusals == asked
    store = desk.store
    assert isinstance(store, MemoryOutbox)
    cloud.bad.clear()
    store.commit(Changes(again=[7]), desk.now_us)
    cloud.go(5)
    assert cloud.taken.count(7) == 1
    assert (desk.keeper.stats().set_aside, desk.keeper.stats().acked) == (0, 20)


def test_a_worker_of_another_version_that_reads_nothing_makes_no_record_pay_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = full_desk(600)
    cloud = Picky(desk, reads=False)
    cloud.go(900)
    stats = desk.keeper.stats()
    assert (stats.pending, stats.set_aside) == (600, 0)
    assert stats.unread_words == "a record is torn"
    assert cloud.refusals < 200, "it is asked ever less often"
    errors = [r.message for r in caplog.records if r.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "can read nothing of the backfill" in errors[0]
    cloud.reads = True
    cloud.go(2 * PAUSE_AT_MOST_US / SECOND)
    assert sorted(cloud.taken) == list(range(1, 601))
    assert "can read the backfill again" in caplog.text
    assert desk.keeper.stats().unread_words == ""


def test_rows_in_doubt_are_bounded_while_a_worker_reads_nothing() -> None:
    desk = full_desk(3 * MOST)
    desk.go(SECOND)
    cloud = Picky(desk, reads=False)
    cloud.go(600)
    carried = {seq for seq in range(1, 3 * MOST + 1) if seq in desk.keeper.backfill.doubts.busy_records()}
    assert len(carried) <= 2 * MOST


def test_another_worker_gets_everything_at_once() -> None:
    desk = full_desk(300)
    Picky(desk, reads=False).go(300)
    desk.disconnect()
    better = Picky(desk)
    better.go(2)
    assert sorted(better.taken) == list(range(1, 301))


def test_one_bad_record_alone_waits_for_proof_that_the_worker_reads_others() -> None:
    desk = full_desk(1)
    cloud = Picky(desk, 1)
    cloud.go(600)
    assert (desk.keeper.stats().pending, desk.keeper.stats().set_aside) == (1, 0)
    desk.keeper.append(record(2), desk.now_us)
    cloud.go(3 * PAUSE_AT_MOST_US / SECOND)
    assert cloud.taken == [2]
    assert (desk.keeper.stats().pending, desk.keeper.stats().set_aside) == (0, 1)


def test_records_keep_flowing_past_one_in_doubt() -> None:
    desk = full_desk(50)
    cloud = Picky(desk, 25)
    for seq in range(51, 150):
        desk.keeper.append(record(seq), desk.now_us)
        cloud.go(0.1)
    cloud.go(5)
    assert sorted(cloud.taken) == [n for n in range(1, 150) if n != 25]


def test_a_record_that_only_memory_has_is_set_aside_from_the_store() -> None:
    desk = Desk()
    cloud = Picky(desk, 5)
    for seq in range(1, 9):
        desk.keeper.far_answered(record(seq), desk.now_us)
    cloud.go(40)
    stats = desk.keeper.stats()
    assert (sorted(set(cloud.taken)), stats.refused, stats.balance) == ([1, 2, 3, 4, 6, 7, 8], 1, 0)


def test_a_batch_in_doubt_that_is_lost_on_its_way_goes_again() -> None:
    desk = full_desk(8)
    cloud = Picky(desk, 3)
    desk.go(20_000)
    cloud.answer()
    desk.go(200_000)
    desk.cloud.batches.clear()  # lost without a word
    cloud.go(60)
    assert sorted(cloud.taken) == [1, 2, 4, 5, 6, 7, 8]
    assert desk.keeper.stats().refused == 1


def test_a_gap_that_no_worker_can_read_is_said_and_counted_as_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = full_desk(10)
    for seq in (20, 30, 40):
        desk.store.commit(
            Changes(gaps=[Gap(run=RUN, stream="door", first=seq, last=seq + 2, reason=GapReason.SHED)]),
            desk.now_us,
        )
    cloud = Picky(desk, bad_gap=30)
    cloud.go(30)
    assert sorted(cloud.taken) == list(range(1, 11))
    assert {first for first, _, _ in cloud.gaps} == {20, 40}
    ledger = desk.store.ledger()
    assert (ledger.gaps, ledger.gaps_dropped, ledger.set_aside) == (0, 1, 0)
    assert (
        caplog.text.count("/door/30 to 32 have no record (shed) is not told, the worker cannot read it") == 1
    )


def test_a_batch_holds_no_more_gaps_than_the_worker_takes_rows() -> None:
    desk = full_desk(0)
    gaps = [Gap(run=RUN, stream="door", first=n, last=n, reason=GapReason.SHED) for n in range(1, 200, 2)]
    desk.store.commit(Changes(gaps=gaps), desk.now_us)
    limits = replace(LIMITS, batch_records=30)
    desk.keeper.backfill.reachable(connected=True, limits=limits, now_us=desk.now_us)
    desk.keeper.flush()
    desk.go(2 * SECOND)
    sent = [len(batch.gaps) for batch in desk.cloud.batches]
    assert max(sent) == 30
