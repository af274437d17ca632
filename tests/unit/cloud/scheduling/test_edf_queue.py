"""The queue of a worker: earliest deadline first, nothing expired is started, nothing leaves twice."""

from hypothesis import given
from hypothesis import strategies as st

from cloud.scheduling.queue import EdfQueue


def test_the_earliest_deadline_leaves_first_whatever_the_order_of_arrival() -> None:
    queue = EdfQueue[str]()
    for name, expiry_us in (("late", 300), ("soon", 100), ("middle", 200)):
        queue.push(name, expiry_us=expiry_us, size_bytes=1)
    assert [queue.pop(0)[1] for _ in range(3)] == ["soon", "middle", "late"]
    assert queue.pop(0) == ([], None)


def test_equal_deadlines_leave_in_the_order_they_came() -> None:
    queue = EdfQueue[int]()
    for i in range(5):
        queue.push(i, expiry_us=100, size_bytes=1)
    assert [queue.pop(0)[1] for _ in range(5)] == [0, 1, 2, 3, 4]


def test_expired_work_is_handed_back_and_never_started() -> None:
    queue = EdfQueue[str]()
    queue.push("dead", expiry_us=100, size_bytes=1)
    queue.push("exactly now", expiry_us=150, size_bytes=1)
    queue.push("alive", expiry_us=151, size_bytes=1)
    assert queue.pop(150) == (["dead", "exactly now"], "alive")


def test_sweeping_takes_the_expired_and_leaves_the_rest() -> None:
    queue = EdfQueue[str]()
    queue.push("dead", expiry_us=100, size_bytes=1)
    queue.push("alive", expiry_us=200, size_bytes=1)
    assert queue.expired(150) == ["dead"]
    assert list(queue) == ["alive"]


def test_a_removed_item_does_not_come_back() -> None:
    queue = EdfQueue[str]()
    kept = queue.push("kept", expiry_us=2, size_bytes=5)
    gone = queue.push("gone", expiry_us=1, size_bytes=7)
    assert queue.remove(gone)
    assert not queue.remove(gone)
    assert (len(queue), queue.size_bytes) == (1, 5)
    assert queue.pop(0) == ([], "kept")
    assert not queue.remove(kept)


def test_only_earlier_deadlines_are_ahead_of_a_new_frame() -> None:
    queue = EdfQueue[int]()
    for expiry_us in (10, 20, 30):
        queue.push(expiry_us, expiry_us=expiry_us, size_bytes=1)
    assert queue.ahead_of(20) == 2
    assert queue.ahead_of(5) == 0


@given(st.lists(st.tuples(st.sampled_from(["push", "pop", "remove", "sweep"]), st.integers(0, 50))))
def test_every_item_leaves_exactly_once(steps: list[tuple[str, int]]) -> None:
    queue = EdfQueue[int]()
    tickets, left, pushed = {}, [], 0
    for step, value in steps:
        if step == "push":
            tickets[pushed] = queue.push(pushed, expiry_us=value, size_bytes=value)
            pushed += 1
        elif step == "pop":
            expired, item = queue.pop(value)
            left += expired + ([] if item is None else [item])
        elif step == "sweep":
            left += queue.expired(value)
        elif value in tickets and queue.remove(tickets[value]):
            left.append(value)
        assert len(queue) == pushed - len(left)
        assert queue.size_bytes == sum(t.size_bytes for t in tickets.values() if t.waiting)
    left += queue.expired(10**9)
    assert sorted(left) == list(range(pushed))
