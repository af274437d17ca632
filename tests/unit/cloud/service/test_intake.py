"""What waits on the bulk lane gives way to live frames, for a second at most, and not one after the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cloud.keeping.intake import BulkIntake
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
