"""How what is kept goes up: acknowledged, sent again, on fresh connections, in virtual time."""

from dataclasses import replace
from pathlib import Path

import pytest

from edge.links.base import Sent
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.sending.uplink import ACK_WITHIN_US
from pipelines.result import Priority
from protos.wire.bulk import Ack
from tests.support.outboxes import AGENT, OLD_RUN, SECOND, Desk, record


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


@pytest.mark.parametrize("acknowledged", [False, True], ids=["on its way", "acknowledged"])
def test_an_answer_that_came_out_late_is_said_again_though_its_first_record_went_up(
    acknowledged: bool,
) -> None:
    desk = Desk()
    desk.connect()
    kept = record(1)
    desk.keeper.append(kept, desk.now_us)
    desk.turn()
    if acknowledged:
        assert [r.on_time for r in desk.deliver()] == [True]
    desk.keeper.append(replace(kept, on_time=False, latency_us=130_000), desk.now_us)
    desk.go(SECOND)
    said = desk.deliver()
    desk.go(SECOND)
    said += desk.deliver()
    assert said[-1].on_time is False
    assert (desk.keeper.stats().pending, desk.store.ledger().balance) == (0, 0)
