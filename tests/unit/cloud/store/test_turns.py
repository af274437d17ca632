"""Rows are taken one at a time, and others are let through in between."""

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from cloud.store.turns import one_at_a_time

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
