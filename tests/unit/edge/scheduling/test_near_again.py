"""A near that was too slow for a while is tried again, however slow it was: without a run it would never learn."""

import pytest

from pipelines.result import AnsweredBy
from tests.support.virtual import MS, World, world

SLOT_WAIT_US = 2_000


def offered_late(w: World, *, frames: int) -> None:
    """Frames every 67 ms that were captured `SLOT_WAIT_US` before the scheduler hears of them, as on a busy gateway."""
    for seq in range(1, frames + 1):
        captured_us = w.now_us
        key = ("s", seq)
        w.deadlines[key] = captured_us + 100 * MS
        w.clock.advance(captured_us + SLOT_WAIT_US)
        taken = w.scheduler.offer(
            key, captured_us=captured_us, deadline_us=captured_us + 100 * MS, now_us=w.now_us
        )
        if taken is not None:
            w.do(taken)
        w.run_until(captured_us + 67 * MS)


@pytest.mark.parametrize("was_ms", [60, 90, 93, 94, 95, 96, 120])
def test_whatever_near_took_before_it_answers_once_it_is_quick_again(was_ms: int) -> None:
    w = world(connect=False)
    for _ in range(500):
        w.scheduler.near.estimate.observe(was_ms * MS)
    w.near_us = lambda _: 10 * MS
    offered_late(w, frames=60)
    near = sum(by is AnsweredBy.NEAR for _, by in w.released.values())
    assert near >= 50
