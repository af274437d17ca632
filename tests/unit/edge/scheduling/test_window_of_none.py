"""A worker that gives no window at all: near answers everything in time, and far again once there is one."""

import pytest

from pipelines.result import AnsweredBy
from protos.wire.session import Credit
from tests.support.virtual import LINK, MS, world

EVERY_US = 40 * MS


@pytest.mark.parametrize(
    "none", [Credit(frames=0, bytes=0), Credit(frames=0, bytes=4 << 20), Credit(frames=8, bytes=0)]
)
def test_a_window_of_none_sends_nothing_and_misses_nothing(none: Credit) -> None:
    w = world()
    w.do(w.scheduler.welcomed(LINK, 2, none, w.now_us))
    w.run_frames(25, every_us=EVERY_US)
    assert [w.released["s", seq][1] for seq in range(1, 26)] == [AnsweredBy.NEAR] * 25
    assert w.late() == []
    w.do(w.scheduler.welcomed(LINK, 3, Credit(frames=8, bytes=4 << 20), w.now_us))
    w.run_frames(25, every_us=EVERY_US, first_seq=26)
    assert w.share(AnsweredBy.FAR, first_seq=40) > 0.5
