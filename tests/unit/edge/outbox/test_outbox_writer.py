"""The writer's thread: its callers never wait, its end loses nothing."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge.links.base import Sent
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.store import Changes, OutboxStore
from edge.outbox.writer import OutboxWriter
from pipelines.errors import ConfigError, Retryable
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, GapReason
from protos.wire.bulk import BulkBatch, Have
from tests.support.eventually import eventually
from tests.support.memory_outbox import MemoryOutbox
from tests.support.outboxes import AGENT, LIMITS, RUN, Cloud, live_ack, opened, record


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

    def open(self, now_us: int) -> None:
        self._wait()
        super().open(now_us)

    def commit(self, changes: Changes, now_us: int) -> None:
        self._wait()
        super().commit(changes, now_us)

    def _wait(self) -> None:
        if not self.let_go.is_set():
            self.hangs.set()
            self.let_go.wait(10)


def test_a_store_that_hangs_is_told_and_only_so_many_records_wait_behind_it() -> None:
    store = Stuck()
    rig = Rig(store, max_memory_records=50)
    rig.writer.start()
    store.let_go.clear()
    rig.writer.append(record(1))
    assert store.hangs.wait(10)
    for seq in range(2, 102):
        rig.writer.append(record(seq))
    assert rig.writer.stats().last_error == "", "a slow commit is no trouble"
    rig.clock.now_us += 12_000_000
    stuck = rig.writer.stats()
    assert stuck.last_error == "the disk has not answered for 12 s"
    assert (stuck.writes, stuck.uncommitted, stuck.lost) == (False, 50, 50)
    store.let_go.set()
    eventually(lambda: rig.writer.stats().committed == 51, what="all that waited")
    rig.writer.flush()
    eventually(lambda: rig.writer.stats().lost == 50, what="the count of what did not fit")
    assert rig.writer.stats().last_error == ""
    assert rig.writer.stop()
    explained = [gap.gap for gap in store.gaps(limit=9)]
    assert [(g.first, g.last, g.detail) for g in explained] == [(52, 101, "memory")]


def test_a_disk_that_hangs_as_the_agent_starts_keeps_it_from_nothing() -> None:
    store = Stuck()
    store.let_go.clear()
    rig = Rig(store, open_within_s=0.01)
    rig.writer.start()
    rig.writer.append(record(1))
    rig.clock.now_us += 3_000_000
    assert "has not answered for 3 s" in rig.writer.stats().last_error
    store.let_go.set()
    eventually(lambda: rig.committed, what="the commit")
    assert rig.writer.stop()


def test_a_store_that_is_refused_after_it_was_waited_for_is_told() -> None:
    class Newer(Stuck):
        def open(self, now_us: int) -> None:
            super().open(now_us)
            raise ConfigError("a newer version wrote it")

    store = Newer()
    store.let_go.clear()
    rig = Rig(store, open_within_s=0.01)
    rig.writer.start()
    store.let_go.set()
    eventually(lambda: "newer version" in rig.writer.stats().last_error, what="the words")
    assert not rig.writer.stop()


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
