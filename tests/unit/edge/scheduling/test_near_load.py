"""When near has time to wait for far, and who gets it when it is free again."""

from edge.scheduling.near.load import NearLoad
from pipelines.result import AnsweredBy
from tests.support.virtual import MS, world

S = 1000 * MS


def asked(every_us: int, frames: int = 40) -> tuple[NearLoad, int]:
    load = NearLoad()
    for i in range(frames):
        load.asked(S + i * every_us)
    return load, S + (frames - 1) * every_us


def test_near_is_full_when_frames_ask_for_nearly_all_of_its_time():
    load, now_us = asked(40 * MS)
    assert load.full(36 * MS, now_us)
    assert not load.full(24 * MS, now_us)


def test_a_few_frames_in_a_row_do_not_yet_say_how_often_they_come():
    load, now_us = asked(1 * MS, frames=4)
    assert not load.full(20 * MS, now_us)


def test_cameras_that_fall_silent_leave_near_time_again():
    load, now_us = asked(40 * MS)
    assert not load.full(36 * MS, now_us + 2 * S)


def test_a_frame_that_found_no_time_makes_near_full_for_a_second():
    load, now_us = asked(500 * MS)
    load.found_short(now_us)
    assert load.full(1, now_us + 999 * MS)
    assert not load.full(1, now_us + 1_000 * MS)


def test_a_frame_sent_far_while_near_had_no_time_gets_near_when_a_run_ends_early():
    w = world()
    for _ in range(60):
        w.scheduler.near.estimate.observe(60 * MS)  # so long a slot is; the runs to come are quicker
    w.run_frames(10, every_us=120 * MS)
    w.rtt_us = lambda _: None
    w.frame(11)
    w.run_until(w.now_us + 20 * MS)
    w.frame(12)
    w.run_until(w.now_us + 500 * MS)
    assert w.uncovered == [("s", 12)]
    assert [w.released["s", seq][1] for seq in (11, 12)] == [AnsweredBy.NEAR, AnsweredBy.NEAR]
    assert w.late() == []
