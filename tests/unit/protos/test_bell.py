"""A bell rung once for each time its thread waits: no wake-up is lost, and none is left over."""

import threading
from collections import deque

from protos.bell import Bell


def test_everything_put_behind_it_is_taken_by_the_one_thread_that_waits() -> None:
    bell, lock = Bell(), threading.Lock()
    queue: deque[int] = deque()
    taken: list[int] = []

    def take() -> None:
        while len(taken) < 4000:
            with lock:
                item = queue.popleft() if queue else None
                if item is None:
                    bell.expect()
            if item is None:
                bell.wait()
            else:
                taken.append(item)

    def put(first: int) -> None:
        for number in range(first, first + 1000):
            with lock:
                queue.append(number)
                bell.ring()

    threads = [threading.Thread(target=put, args=(first,)) for first in range(0, 4000, 1000)]
    taker = threading.Thread(target=take)
    for thread in (taker, *threads):
        thread.start()
    for thread in (*threads, taker):
        thread.join(20.0)
    assert not taker.is_alive()
    assert sorted(taken) == list(range(4000))


def test_rings_that_nobody_waits_for_are_no_wake_up_later() -> None:
    bell = Bell()
    bell.ring()
    bell.expect()
    bell.ring()
    bell.ring()
    bell.wait()
    waits = threading.Thread(target=bell.wait, daemon=True)
    bell.expect()
    waits.start()
    bell.ring()
    waits.join(5.0)
    assert not waits.is_alive()
