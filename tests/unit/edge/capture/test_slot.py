"""The slot of one frame: latest wins, nobody waits who must not, and no frame leaves twice or never."""

import threading

import numpy as np
import pytest

from edge.capture.slot import Slot
from pipelines.frame import Frame
from tests.support.eventually import eventually

PICTURE = np.zeros((4, 4, 3), np.uint8)


def frame(seq):
    return Frame(stream="door", seq=seq, picture=PICTURE, captured_us=0, available_us=0, captured_unix_us=0)


@pytest.fixture
def started():
    """Start threads; each must have ended when the test is over."""
    threads = []

    def start(target):
        thread = threading.Thread(target=target)
        thread.start()
        threads.append(thread)
        return thread

    yield start
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def test_the_latest_frame_wins_and_the_displaced_one_comes_back_to_be_counted():
    slot = Slot()
    first, second = frame(1), frame(2)
    assert slot.put(first) is None
    assert slot.put(second) is first
    assert slot.take() is second


def test_a_frame_is_taken_once():
    slot = Slot()
    slot.put(frame(1))
    assert slot.take() is not None
    assert slot.take() is None


def test_a_peek_leaves_the_frame_where_it_is():
    slot = Slot()
    assert slot.peek() is None
    only = frame(1)
    slot.put(only)
    assert slot.peek() is only
    assert slot.take() is only


def test_a_frame_nobody_wants_yet_stays_and_may_still_be_displaced():
    slot = Slot()
    old, new = frame(1), frame(2)
    slot.put(old)
    assert slot.take_when(lambda _: False) is None
    assert slot.put(new) is old
    assert slot.take_when(lambda judged: judged is new) is new
    assert slot.peek() is None


def test_an_empty_slot_asks_nobody():
    def never(_):
        raise AssertionError("asked")

    assert Slot().take_when(never) is None


def test_waiting_for_room_ends_when_the_frame_is_taken(started):
    slot = Slot()
    stop = threading.Event()
    first = frame(1)
    slot.put(first)
    free = []
    started(lambda: free.append(slot.wait_until_free(stop)))
    assert free == []
    assert slot.take() is first
    eventually(lambda: free == [True], what="room")


def test_waiting_for_room_ends_on_stop_and_leaves_the_frame_inside_alone(started):
    slot = Slot()
    stop = threading.Event()
    first = frame(1)
    slot.put(first)
    free = []
    started(lambda: free.append(slot.wait_until_free(stop)))
    stop.set()
    eventually(lambda: free == [False], what="who waited gave up")
    assert slot.take() is first
    assert not slot.wait_until_free(stop)


def test_with_a_fast_writer_every_frame_is_either_taken_or_displaced(started):
    slot = Slot()
    taken, displaced = [], []
    done = threading.Event()

    def write():
        for seq in range(3000):
            if (lost := slot.put(frame(seq))) is not None:
                displaced.append(lost.seq)
        done.set()

    def read():
        while True:
            over = done.is_set()
            if (got := slot.take()) is not None:
                taken.append(got.seq)
            elif over:
                return

    reader = started(read)
    started(write).join(10)
    reader.join(10)
    assert sorted(taken + displaced) == list(range(3000))
    assert taken == sorted(taken)
    assert taken[-1] == 2999
