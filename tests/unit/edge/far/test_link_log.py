"""The link over time: a line when its state changes, and no more than five a second while it does not."""

from edge.far.log import EVERY_US, LinkLog
from edge.far.sight import LinkSight
from tests.support.run_records import sight


def test_a_quiet_link_has_a_line_every_200_ms_however_often_it_is_looked_at():
    seen: list[LinkSight] = []
    log = LinkLog(write=seen.append)
    for now_us in range(0, 1_000_000, 1_000):
        log.saw(sight(), now_us)
    assert len(seen) == 1_000_000 // EVERY_US


def test_a_change_of_state_has_a_line_at_once():
    seen: list[LinkSight] = []
    log = LinkLog(write=seen.append)
    looks = [
        sight(connected=False, reason="not connected"),
        sight(connected=True, reason="not measured yet"),
        sight(connected=True, reason="the worker refuses"),
        sight(connected=True, reason="the worker refuses", rtt_us=1),
    ]
    for now_us, look in enumerate(looks):
        log.saw(look, now_us)
    assert seen == looks[:3]
