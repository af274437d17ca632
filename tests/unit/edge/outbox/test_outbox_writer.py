"""The writer's thread: its callers never wait, its end loses nothing."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge.links.base import Sent
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.memory_outbox import MemoryOutbox
from edge.outbox.store import Changes, OutboxStore
from edge.outbox.writer import OutboxWriter
from pipelines.errors import ConfigError, Retryable
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, GapReason, Priority
from protos.wire.bulk import BulkBatch, Have
from tests.support.eventually import eventually
from tests.support.outboxes import AGENT, LIMITS, RUN, Cloud, entry, live_ack, opened, payload, record


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_us = 1_000_000

    def __call__(self) -> int:
        return self.now_us


class Rig:
    def __init__(self, store: OutboxStore, **options: Any) -> None:
        self.clock = Clock()
        self.cloud = Cloud()
        self.committed: list[FrameId] = []
        self.writer = OutboxWriter(
            store=store,
            agent=AGENT,
            run=RUN,
            clock_us=self.clock,
            on_committed=self.committed.append,
            send=self.send,
            **options,
        )

    def send(self, batch: Have | BulkBatch) -> Sent:
        return self.cloud.send(batch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


@pytest.fixture
def rig(path: Path) -> Iterator[Rig]:
    rig = Rig(SqliteOutbox(path))
    rig.writer.start()
    yield rig
    rig.writer.stop()


def test_an_answer_is_announced_once_it_is_in_the_store(rig: Rig, path: Path) -> None:
    rig.writer.append(record(1))
    eventually(lambda: rig.committed, what="the commit")
    assert rig.committed == [record(1).id]
    beside = SqliteOutbox(path)
    assert [s.key[2] for s in beside.peek(limit=10, max_bytes=1 << 20)] == [1]
    beside.close(0)


def test_every_answer_goes_up_once_and_then_nothing_is_left(rig: Rig) -> None:
    for seq in range(1, 21):
        rig.writer.append(record(seq))
    assert not rig.writer.empty()
    # After them: time stands still, and so one batch goes.
    rig.writer.reachable(connected=True, limits=LIMITS)
    eventually(lambda: sum(len(opened(b)) for b in rig.cloud.batches) == 20, what="twenty records sent")
    records, ack = rig.cloud.take()
    assert sorted(r.id.seq for r in records) == list(range(1, 21))
    rig.writer.acked_bulk(ack)
    eventually(rig.writer.empty, what="an empty outbox")
    stats = rig.writer.stats()
    assert (stats.committed, stats.acked, stats.balance) == (20, 20, 0)


def test_an_outcome_is_still_to_be_told_after_the_live_acknowledgement(rig: Rig) -> None:
    rig.writer.reachable(connected=True, limits=LIMITS)
    rig.writer.far_answered(record(1, by=AnsweredBy.FAR))
    rig.writer.acked_live(live_ack(1, 1))
    eventually(lambda: rig.writer.stats().outcomes_pending == 1, what="the outcome")
    assert not rig.writer.empty()
    rig.writer.flush()
    eventually(lambda: rig.cloud.batches, what="the outcome on its way")
    rig.writer.acked_bulk(rig.cloud.take()[1])
    eventually(rig.writer.empty, what="an empty outbox")


def test_callers_never_wait_for_a_store_that_hangs() -> None:
    let_go = threading.Event()

    class Hanging(MemoryOutbox):
        def commit(self, changes: Changes, now_us: int) -> None:
            let_go.wait(10)
            super().commit(changes, now_us)

    rig = Rig(Hanging())
    rig.writer.start()
    for seq in range(1, 101):
        rig.writer.append(record(seq))
        rig.writer.captured("door", seq)
    assert rig.committed == []
    let_go.set()
    eventually(lambda: len(rig.committed) == 100, what="all commits")
    assert rig.writer.stop()


class Stuck(MemoryOutbox):
    """Hangs, once it is told to, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()
        self.let_go.set()
        self.hangs = threading.Event()
        self._passes = threading.Semaphore(0)

    def open(self, now_us: int) -> None:
        self._wait()
        super().open(now_us)

    def commit(self, changes: Changes, now_us: int) -> None:
        self._wait()
        super().commit(changes, now_us)

    def hang_once_more(self) -> None:
        """The call that hangs returns, and the next one hangs."""
        self.hangs.clear()
        self._passes.release()

    def _wait(self) -> None:
        if self.let_go.is_set():
            return
        self.hangs.set()
        until_s = time.monotonic() + 10
        while not self.let_go.wait(0.001) and time.monotonic() < until_s:
            if self._passes.acquire(blocking=False):
                return


def behind_a_hang(**options: Any) -> tuple[Stuck, Rig]:
    """A writer inside the commit of record 1."""
    store = Stuck()
    rig = Rig(store, **options)
    rig.writer.start()
    store.let_go.clear()
    store.hangs.clear()
    rig.writer.append(record(1))
    assert store.hangs.wait(10)
    return store, rig


@pytest.mark.parametrize("far", [False, True])
def test_a_store_that_hangs_is_told_and_only_so_many_records_wait_behind_it(far: bool) -> None:
    store, rig = behind_a_hang(max_memory_records=50)
    for seq in range(2, 102):
        if far:
            rig.writer.far_answered(record(seq, by=AnsweredBy.FAR))
        else:
            rig.writer.append(record(seq))
    assert rig.writer.stats().last_error == "", "a slow commit is no trouble"
    rig.clock.now_us += 12_000_000
    stuck = rig.writer.stats()
    assert stuck.last_error == "the outbox has been busy with its disk for 12 s"
    assert (stuck.writes, stuck.uncommitted, stuck.lost) == (False, 51, 50)
    assert not rig.writer.empty()
    store.let_go.set()
    eventually(lambda: rig.writer.stats().last_error == "", what="that it goes on")
    assert rig.writer.stop()
    rig.clock.now_us += 60_000_000
    assert rig.writer.stats().last_error == "", "it has ended"
    assert rig.writer.stats().lost == 50
    assert rig.writer.stats().committed == 51
    explained = [gap.gap for gap in store.gaps(limit=9)]
    assert [(g.first, g.last, g.detail) for g in explained] == [(52, 101, "memory")]


def test_behind_a_store_that_hangs_the_least_important_give_way() -> None:
    store, rig = behind_a_hang(max_memory_records=20)
    for seq in range(2, 32):
        rig.writer.append(record(seq, priority=Priority.LOW))
    for seq in range(32, 42):
        rig.writer.append(record(seq, priority=Priority.HIGH))
    store.let_go.set()
    assert rig.writer.stop()
    kept = {stored.key[2] for stored in store.peek(limit=99, max_bytes=1 << 20)}
    assert kept == {1, *range(2, 12), *range(32, 42)}
    assert rig.writer.stats().lost == 20


def test_what_is_lost_never_counts_backwards_through_a_second_hang() -> None:
    store, rig = behind_a_hang(max_memory_records=5)
    for seq in range(2, 27):
        rig.writer.append(record(seq))
    rig.clock.now_us += 3_000_000
    assert rig.writer.stats().lost == 20
    store.hang_once_more()
    assert store.hangs.wait(10)
    assert rig.writer.stats().lost == 20
    rig.clock.now_us += 3_000_000
    assert rig.writer.stats().lost == 20
    store.let_go.set()
    assert rig.writer.stop()
    assert rig.writer.stats().lost == 20


def test_pictures_behind_a_store_that_hangs_are_bounded_by_their_bytes() -> None:
    store, rig = behind_a_hang()
    for seq in range(1, 101):
        rig.writer.keep_payload(payload(seq, size=1 << 20))
    rig.clock.now_us += 3_000_000
    assert 60 <= rig.writer.stats().payloads_lost <= 80
    store.let_go.set()
    assert rig.writer.stop()
    stats = rig.writer.stats()
    assert stats.payloads_committed + stats.payloads_lost == 100


def test_words_about_frames_behind_a_store_that_hangs_are_kept_as_ranges_and_told_afterwards() -> None:
    store, rig = behind_a_hang()
    rig.clock.now_us += 3_000_000
    for seq in range(2, 1002):
        rig.writer.captured("door", seq)
        rig.writer.observe_live(in_flight_bytes=0, over_budget=False, bytes_per_s=1.0, queueing_us=0)
        rig.writer.live_sent(rig.clock.now_us)
        rig.writer.gap(stream="door", seq=seq, reason=GapReason.SHED, detail="overload")
        rig.writer.settled("door", seq)
    assert rig.writer.waiting <= 2
    store.let_go.set()
    rig.writer.settled("door", 1)
    assert rig.writer.stop()
    assert [(g.gap.first, g.gap.last, g.gap.reason) for g in store.gaps(limit=9)] == [
        (2, 1001, GapReason.SHED)
    ]
    assert [(mark.reserved, mark.settled) for mark in store.runs()] == [(1001, 1001)]


def test_a_disk_that_hangs_as_the_agent_starts_keeps_it_from_nothing() -> None:
    store = Stuck()
    store.let_go.clear()
    rig = Rig(store, open_within_s=0.01)
    rig.writer.start()
    rig.writer.append(record(1))
    rig.clock.now_us += 3_000_000
    assert "busy with its disk for 3 s" in rig.writer.stats().last_error
    store.let_go.set()
    eventually(lambda: rig.committed, what="the commit")
    assert rig.writer.stop()


def test_a_store_that_is_refused_after_it_was_waited_for_is_told_and_what_waited_stays_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Newer(Stuck):
        def open(self, now_us: int) -> None:
            super().open(now_us)
            raise ConfigError("a newer version wrote it")

    store = Newer()
    store.let_go.clear()
    rig = Rig(store, open_within_s=0.01, max_memory_records=10)
    rig.writer.start()
    for seq in range(1, 31):
        rig.writer.append(record(seq))
    store.let_go.set()
    eventually(lambda: "newer version" in rig.writer.stats().last_error, what="the words")
    stats = rig.writer.stats()
    assert (stats.writes, stats.uncommitted, stats.lost) == (False, 10, 20)
    rig.clock.now_us += 3_000_000
    assert "newer version" in rig.writer.stats().last_error
    assert not rig.writer.stop()
    assert "newer version" in caplog.text


def test_what_the_store_held_before_is_known_as_soon_as_it_is_open(path: Path) -> None:
    before = SqliteOutbox(path)
    before.open(0)
    before.commit(Changes(entries=[entry(1)]), 0)
    before.close(0)
    rig = Rig(SqliteOutbox(path))
    rig.writer.start()
    assert rig.writer.at_start.committed == 1
    rig.writer.append(record(2))
    eventually(lambda: rig.committed, what="the commit")
    assert rig.writer.at_start.committed == 1
    rig.writer.stop()


def test_the_first_frames_are_reserved_before_capture_starts(rig: Rig, path: Path) -> None:
    assert rig.writer.reserve_now(["door", "yard"])
    beside = SqliteOutbox(path)
    assert [(m.stream, m.reserved, m.settled) for m in beside.runs()] == [("door", 256, 0), ("yard", 256, 0)]
    beside.close(0)


def test_a_reservation_that_cannot_be_written_does_not_hold_up_the_start() -> None:
    store = MemoryOutbox()
    store.fail = Retryable("read-only")
    rig = Rig(store)
    rig.writer.start()
    assert not rig.writer.reserve_now(["door"], timeout_us=1)
    assert not rig.writer.stop(timeout_us=0)
    assert rig.writer.stats().last_error == "read-only"


def test_the_end_writes_everything_that_was_told(path: Path) -> None:
    rig = Rig(SqliteOutbox(path))
    rig.writer.start()
    rig.writer.append(record(1))
    rig.writer.far_answered(record(2, by=AnsweredBy.FAR))
    rig.writer.gap(stream="door", seq=3, reason=GapReason.SHED, detail="stopping")
    assert rig.writer.stop()
    again = SqliteOutbox(path)
    assert sorted(s.key[2] for s in again.peek(limit=10, max_bytes=1 << 20)) == [1, 2]
    assert [(g.gap.first, g.gap.last) for g in again.gaps(limit=10)] == [(3, 3)]
    assert [(m.reserved, m.settled) for m in again.runs()] == [(3, 3)]
    again.close(0)


def test_an_end_that_cannot_write_is_bounded_and_says_so() -> None:
    store = MemoryOutbox()
    rig = Rig(store)
    rig.writer.start()
    store.fail = Retryable("read-only")
    rig.writer.append(record(1))
    eventually(lambda: rig.writer.stats().uncommitted == 1, what="a record that waits")
    assert not rig.writer.stop(timeout_us=0)
    assert rig.writer.stats().uncommitted == 1


def test_a_callback_that_fails_does_not_end_the_outbox(path: Path) -> None:
    rig = Rig(SqliteOutbox(path))
    rig.cloud.sent = Sent.DOWN
    calls = []

    def send(batch: Have | BulkBatch) -> Sent:
        calls.append(batch)
        if len(calls) == 1:
            raise RuntimeError("a link with a fault")
        return Sent.ACCEPTED

    rig.send = send  # type: ignore[method-assign]
    rig.writer = OutboxWriter(
        store=SqliteOutbox(path),
        agent=AGENT,
        run=RUN,
        clock_us=rig.clock,
        on_committed=rig.committed.append,
        send=send,
    )
    rig.writer.start()
    rig.writer.reachable(connected=True, limits=LIMITS)
    rig.writer.append(record(1))
    eventually(lambda: len(calls) == 1, what="the fault")
    rig.writer.append(record(2))
    eventually(lambda: len(calls) == 2, what="the next batch")
    assert rig.writer.stop()


def test_a_newer_file_refuses_the_start() -> None:
    store = MemoryOutbox()
    store.fail = ConfigError("written by a newer nearfar")
    with pytest.raises(ConfigError, match="newer nearfar"):
        Rig(store).writer.start()
