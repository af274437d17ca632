"""What waits on the bulk lane gives way to live frames, for a second at most, and not one after the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cloud.keeping.bulk_intake import BulkIntake
from tests.support.eventually import eventually

BATCHES = 5


@contextmanager
def intake(way_s: float) -> Iterator[tuple[BulkIntake[str, int], list[int], list[float]]]:
    """One in which giving way takes `way_s`; what it opened, and when it gave way."""
    now_s = [100.0]
    opened: list[int] = []
    gave_way: list[float] = []

    def give_way() -> None:
        gave_way.append(now_s[0])
        now_s[0] += way_s

    def open_batch(_: str, batch: int) -> None:
        opened.append(batch)

    made = BulkIntake(open_batch, give_way=give_way, failed=pytest.fail, clock_s=lambda: now_s[0])
    for batch in range(BATCHES):
        assert made.offer("gw", batch)
    made.start()
    try:
        yield made, opened, gave_way
    finally:
        made.stop(5.0)


def all_of(opened: list[int]) -> Callable[[], bool]:
    return lambda: opened == list(range(BATCHES))


def test_batches_that_waited_together_under_load_wait_one_second_not_one_each() -> None:
    with intake(way_s=1.0) as (made, opened, gave_way):
        eventually(all_of(opened))
        assert gave_way == [100.0]
        made.offer("gw", BATCHES)
        eventually(lambda: len(opened) > BATCHES)
        assert gave_way == [100.0, 101.0], "what comes later gives way anew"


def test_while_there_is_room_every_batch_gives_way() -> None:
    with intake(way_s=0.01) as (_, opened, gave_way):
        eventually(all_of(opened))
        assert len(gave_way) == BATCHES


def quiet(opened: list[tuple[str, int]], *, most: int) -> BulkIntake[str, int]:
    """One that is not started yet."""
    return BulkIntake(
        lambda sender, batch: opened.append((sender, batch)),
        give_way=lambda: None,
        failed=pytest.fail,
        most=most,
    )


def fill(made: BulkIntake[str, int], sender: str) -> int:
    """Offer until it is refused; how many were taken."""
    taken = 0
    while made.offer(sender, taken):
        taken += 1
    return taken


def test_a_gateway_that_came_later_is_served_in_turn_and_not_behind_all_of_another() -> None:
    opened: list[tuple[str, int]] = []
    made = quiet(opened, most=8)
    assert [made.offer("hours", n) for n in range(6)] == [True] * 6
    assert [made.offer("minutes", n) for n in range(2)] == [True] * 2
    made.start()
    made.stop(5.0)
    assert opened[:4] == [("hours", 0), ("minutes", 0), ("hours", 1), ("minutes", 1)]
    assert opened[4:] == [("hours", n) for n in range(2, 6)]


def test_one_gateway_alone_has_all_the_room_and_two_have_half_each() -> None:
    opened: list[tuple[str, int]] = []
    alone, shared = quiet(opened, most=8), quiet(opened, most=8)
    assert fill(alone, "a") == 8
    assert [shared.offer(sender, 0) for sender in "ab"] == [True, True]
    assert [shared.offer(sender, n) for n in range(1, 4) for sender in "ab"] == [True] * 6
    assert [shared.offer(sender, 4) for sender in "ab"] == [False, False]


def test_a_gateway_with_nothing_waiting_gets_in_however_much_others_have_there() -> None:
    made = quiet([], most=4)
    assert fill(made, "hog") == 4
    assert [fill(made, name) for name in ("b", "c", "d", "e")] == [1] * 4
    assert fill(made, "f") == 0, "memory has an end"
