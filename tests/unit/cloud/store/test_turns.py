"""Rows are taken one at a time, and others are let through in between."""

import sys
import threading
import time
from collections.abc import Iterable, Iterator

import pytest

from cloud.store.turns import one_at_a_time
from cloud.store.writer import Entry, StoreWriter
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Record, Status
from pipelines.runtime import monotonic_us

ROWS = 2_000
ROW_S = 0.001


@pytest.fixture
def held_interpreter() -> Iterator[None]:
    """Nobody has to give it up of its own accord."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(60)
    yield
    sys.setswitchinterval(usual_s)


def _busy(seconds: float) -> None:
    until_s = time.thread_time() + seconds
    while time.thread_time() < until_s:
        pass


def test_another_thread_gets_its_turn_between_two_rows(held_interpreter: None) -> None:
    done: list[int] = []
    other = threading.Thread(target=done.append, args=(1,))
    rows = iter(one_at_a_time(range(ROWS)))
    assert next(rows) == 0
    starts = threading.Thread(target=other.start)
    starts.start()
    for _ in rows:
        _busy(ROW_S)
        if done:
            break
    assert done
    starts.join()
    other.join()


def test_every_row_comes_once_and_in_order() -> None:
    assert list(one_at_a_time(range(5))) == [0, 1, 2, 3, 4]
    assert list(one_at_a_time(())) == []


def test_a_commit_of_many_rows_gives_other_threads_their_turns(held_interpreter: None) -> None:
    begun, done = threading.Event(), threading.Event()
    took: list[int] = []

    class Store:
        """Takes its time over every row, and stops at the one at which the other thread has had its turn."""

        def commit(self, *, far: Iterable[Record] = (), **_: object) -> None:
            for number, _record in enumerate(far):
                begun.set()
                _busy(ROW_S)
                if done.is_set():
                    took.append(number)
                    return

    def other() -> None:
        begun.wait(10.0)
        done.set()

    thread = threading.Thread(target=other)
    writer = StoreWriter(
        Store(), commit_every_us=0, acknowledge=lambda _: None, clock_us=monotonic_us, unix_us=lambda: 1
    )
    record = Record(id=FrameId("gw", bytes(16), "door", 1), answered_by=AnsweredBy.FAR, status=Status.OK)
    thread.start()
    writer.start()
    writer.submit(Entry(far=[record] * ROWS))
    assert writer.stop(30_000_000)
    thread.join(10.0)
    assert took, "it was let in before the last row"
