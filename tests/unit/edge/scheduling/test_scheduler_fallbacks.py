"""Near, then smaller, then tracked, then missed: each as soon as it must be and no sooner."""

from typing import Any

import numpy as np
import pytest

from edge.scheduling.fair_share import WEIGHTS, FairShare
from edge.scheduling.job import Job, Near
from edge.scheduling.priority_rule import PriorityRule
from edge.scheduling.settings import SmallNear, StreamSettings, Tracking
from edge.scheduling.stream import Stream
from pipelines.result import AnsweredBy, Detections, Load, Priority, Status, WorkerTiming
from tests.support.virtual import MS, ONE_RUNG, World, world

FPS_10 = 100 * MS
FPS_25 = 40 * MS
SMALL = SmallNear(accuracy=0.4, prior_us=8 * MS)
TRACKING = Tracking(accuracy=0.3)


def answers(w: World, first: int, last: int) -> list[AnsweredBy]:
    return [w.released["s", seq][1] for seq in range(first, last + 1)]


# -- the smaller input --------------------------------------------------------------------------------------------


def test_a_near_that_became_slow_answers_at_its_smaller_input_and_goes_back_when_it_is_quick_again():
    w = world(connect=False, small_near=SMALL)
    w.run_frames(10, every_us=FPS_10)
    w.near_us = lambda _: 150 * MS
    w.run_frames(50, every_us=FPS_10, first_seq=11)
    slow = [small for key, small in w.near_runs if key[1] > 20]
    assert slow.count(True) >= 36
    assert w.share(AnsweredBy.NEAR, first_seq=12) >= 0.9
    w.near_us = lambda _: 20 * MS
    w.run_frames(600, every_us=FPS_10, first_seq=61)
    assert [small for key, small in w.near_runs if key[1] > 640] == [False] * 20
    assert w.share(AnsweredBy.NEAR, first_seq=61) == 1.0
    assert w.late() == []


def test_a_gateway_too_slow_for_the_full_input_tries_it_ever_less_often():
    w = world(connect=False, small_near=SMALL)
    w.near_us = lambda _: 150 * MS
    w.run_frames(1000, every_us=FPS_10)
    tried = [key[1] for key, small in w.near_runs if not small]
    assert 4 <= len(tried) <= 12, "2 s, 4 s, 8 s … 32 s apart"
    assert w.share(AnsweredBy.NEAR) >= 0.98


def test_a_near_that_could_never_make_the_full_input_never_tries_it():
    w = world(connect=False, small_near=SMALL, near_prior_us=150 * MS)
    w.near_us = lambda _: 150 * MS
    w.run_frames(100, every_us=FPS_10)
    assert {small for _, small in w.near_runs} == {True}


# -- tracked ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tracking", "asked"), [(TRACKING, True), (None, False)])
def test_a_link_too_slow_for_any_deadline_is_asked_on_only_where_late_answers_are_carried_forward(
    tracking, asked
):
    w = world(near_accuracy=None, tracking=tracking, fall_back_above_us=1_000 * MS, return_below_us=500 * MS)
    w.run_frames(20, every_us=FPS_25)
    w.rtt_us = lambda _: 300 * MS
    w.run_frames(50, every_us=FPS_25, first_seq=21)
    before = len(w.late_far)
    w.run_frames(100, every_us=FPS_25, first_seq=71)
    assert (len(w.late_far) - before >= 5) is asked


def without_near(**changes: Any) -> World:
    """Twenty frames answered far, then the link carries nothing more."""
    given: dict[str, Any] = {"near_accuracy": None, "tracking": TRACKING} | changes
    w = world(**given)
    w.run_frames(20, every_us=FPS_25)
    w.rtt_us = lambda _: None
    return w


@pytest.mark.parametrize("max_age", [1, 3, 9])
def test_an_answer_is_carried_forward_as_many_frames_as_the_recipe_says(max_age: int):
    w = without_near(tracking=Tracking(accuracy=0.3, max_age=max_age))
    w.run_frames(15, every_us=FPS_25, first_seq=21)
    assert answers(w, 21, 35) == [AnsweredBy.TRACKED] * max_age + [AnsweredBy.MISSED] * (15 - max_age)
    assert w.late() == []


def test_without_a_tracker_nothing_is_carried_forward():
    w = without_near(tracking=None)
    w.run_frames(5, every_us=FPS_25, first_seq=21)
    assert answers(w, 21, 25) == [AnsweredBy.MISSED] * 5
    assert w.tracks == []


def test_the_tracker_is_asked_in_time_for_an_answer_nobody_gives_and_not_while_somebody_may():
    w = without_near()
    w.run_frames(3, every_us=FPS_25, first_seq=21)
    guard_us = 5 * MS * 5 // 4
    for asked_us, key in w.tracks:
        left_us = w.deadlines[key] - w.scheduler.wake_up.margin_us - asked_us
        assert left_us == pytest.approx(guard_us + w.scheduler.wake_up.commit_us, abs=MS)
    assert {key for _, key in w.tracks} == {("s", seq) for seq in (21, 22, 23)}


def test_a_tracker_that_takes_longer_than_thought_is_asked_earlier():
    w = without_near()
    for _ in range(20):
        w.scheduler.tracked(15 * MS)
    w.run_frames(1, every_us=FPS_25, first_seq=21)
    (asked_us, key), *_ = w.tracks
    assert w.deadlines[key] - asked_us >= 19 * MS


def test_a_full_run_that_overruns_makes_room_for_the_smaller_input_on_the_same_frame():
    w = world(connect=False, small_near=SMALL)
    w.run_frames(30, every_us=FPS_10)
    w.near_us = lambda _: 200 * MS
    w.run_frames(1, every_us=FPS_10, first_seq=31)
    assert w.near_runs[-2:] == [(("s", 31), False), (("s", 31), True)]
    assert w.released["s", 31][1] is AnsweredBy.NEAR
    assert w.late() == []


def test_no_tracker_runs_while_near_or_far_answer_in_time():
    w = world(tracking=TRACKING)
    w.run_frames(50, every_us=FPS_25)
    w.disconnect()
    w.run_frames(50, every_us=FPS_25, first_seq=51)
    assert w.tracks == []


def test_a_near_run_that_is_on_gets_all_the_time_there_is_and_a_tracked_answer_stands_by():
    w = world(connect=False, tracking=TRACKING)
    w.run_frames(20, every_us=FPS_10)
    w.near_us = lambda _: 94 * MS
    w.run_frames(1, every_us=FPS_10, first_seq=21)
    w.near_us = lambda _: 500 * MS
    w.run_frames(1, every_us=FPS_10, first_seq=22)
    assert [key for _, key in w.tracks] == [("s", 21), ("s", 22)]
    assert answers(w, 21, 22) == [AnsweredBy.NEAR, AnsweredBy.TRACKED]
    assert w.late() == []


def test_a_frame_that_waited_for_near_in_vain_is_tracked_and_not_shed():
    streams = {s: StreamSettings(pixels=1000) for s in ("busy", "s")}
    w = world(connect=False, tracking=TRACKING, streams=streams)
    w.near_us = lambda _: 20 * MS
    w.run_frames(5, every_us=FPS_25, streams=("busy", "s"))
    w.near_us = lambda _: 70 * MS
    for _ in range(20):
        w.scheduler.near.estimate.observe(70 * MS)
    for seq in range(6, 10):
        w.frame(seq, "busy")
        w.run_until(w.now_us + 5 * MS)
        w.frame(seq, "s")
        w.run_until(w.now_us + 115 * MS)
    by = [w.released[stream, seq][1] for stream in ("busy", "s") for seq in range(6, 10)]
    assert w.shed_for == {}
    assert set(by) == {AnsweredBy.TRACKED, AnsweredBy.NEAR}
    assert by.count(AnsweredBy.TRACKED) >= 3
    assert w.late() == []


def test_a_late_far_answer_can_be_carried_forward_from_then_on():
    w = without_near()
    w.run_frames(8, every_us=FPS_25, first_seq=21)
    assert w.released["s", 28][1] is AnsweredBy.MISSED
    w.do(w.scheduler.result(("s", 28), link="link", timing=WorkerTiming(), load=Load(), now_us=w.now_us))
    w.run_frames(6, every_us=FPS_25, first_seq=29)
    assert answers(w, 29, 34) == [AnsweredBy.TRACKED] * 5 + [AnsweredBy.MISSED]


def test_a_later_frame_that_was_answered_first_does_not_end_the_tracking_of_an_earlier_one():
    stream = Stream(StreamSettings(pixels=1000), ladder=ONE_RUNG)
    for seq in (20, 25):
        stream.answered(seq, seq * FPS_25, good=True)
    assert (stream.behind(22), stream.behind(25), stream.behind(27)) == (2, 5, 2)


def test_a_far_result_of_a_stream_nobody_knows_changes_nothing():
    w = world(tracking=TRACKING)
    w.do(w.scheduler.result(("", 7), link="link", timing=WorkerTiming(), load=Load(), now_us=w.now_us))
    assert w.late_far == [("", 7)]


# -- priority -----------------------------------------------------------------------------------------------------


def test_regions_are_judged_in_the_picture_that_was_answered_whatever_was_known_of_the_camera():
    rule = PriorityRule(priority=Priority.HIGH, region=(0.0, 0.5, 1.0, 1.0))
    w = world(streams={"s": StreamSettings(pixels=1000, size_px=(0, 0), rules=(rule,))})
    seen = Detections(
        np.array([[100, 300, 140, 340]], np.float32), np.full(1, 0.9, np.float32), np.zeros(1, np.uint16)
    )
    w.scheduler.saw("s", seen, w.now_us, (640, 480))
    assert w.scheduler.priority("s", w.now_us) is Priority.HIGH
    w.scheduler.saw("s", seen, w.now_us, (1280, 960))
    assert w.scheduler.priority("s", w.now_us) is Priority.NORMAL


def test_a_frame_is_kept_by_what_its_own_answer_showed_and_scheduled_by_the_one_before():
    rules = (PriorityRule(priority=Priority.HIGH, label="person"),)
    streams = {"s": StreamSettings(pixels=1000, priority=Priority.LOW, rules=rules)}
    w = world(streams=streams)
    box = np.array([[1, 1, 9, 9]], np.float32), np.full(1, 0.9, np.float32), np.zeros(1, np.uint16)
    w.scheduler.saw("s", Detections(*box, labels=("person",)), w.now_us, (32, 24))
    shown = Detections(*box, labels=("car",))
    assert w.scheduler.priority("s", w.now_us) is Priority.HIGH
    assert w.scheduler.priority_of("s", shown, (32, 24)) is Priority.LOW
    assert w.scheduler.priority_of("s", Detections(*box, labels=("person",)), (32, 24)) is Priority.HIGH


def test_weights_of_the_recipe_share_a_short_near():
    weights = {Priority.HIGH: 1.0, Priority.NORMAL: 1.0, Priority.LOW: 1.0}
    streams = {p.value: StreamSettings(pixels=320 * 240, priority=p) for p in Priority}
    w = world(connect=False, streams=streams, weights=weights)
    w.near_us = lambda _: 35 * MS
    for _ in range(20):
        w.scheduler.near.estimate.observe(35 * MS)
    w.run_frames(300, every_us=FPS_25, streams=tuple(streams))
    had = [sum(k[0] == s and by is AnsweredBy.NEAR for k, (_, by) in w.released.items()) for s in streams]
    assert max(had) <= 1.4 * min(had)


def test_weights_reach_every_link():
    weights = {Priority.HIGH: 9.0, Priority.NORMAL: 2.0, Priority.LOW: 1.0}
    w = world(weights=weights)
    (way,) = w.scheduler.ways.values()
    for share, wanted in ((way.share, weights), (FairShare(), WEIGHTS)):
        for priority, weight in wanted.items():
            share.charge(priority.value, 1.0, now_us=0)
            _, use_per_weight, _ = share.rank(priority.value, priority, now_us=0)
            assert use_per_weight == 1.0 / weight


def test_every_tracked_answer_says_ok_and_every_missed_one_why():
    w = without_near()
    w.run_frames(12, every_us=FPS_25, first_seq=21)
    said = {(w.given["s", seq].by, w.given["s", seq].status) for seq in range(21, 33)}
    assert said == {(AnsweredBy.TRACKED, Status.OK), (AnsweredBy.MISSED, Status.TIMEOUT)}
    assert all(w.given["s", seq].reason for seq in range(21, 33))


@pytest.mark.parametrize(
    ("exists", "why"),
    [(True, "far not back in time; near not done in time"), (False, "far not back in time")],
)
def test_a_frame_that_neither_far_nor_near_answered_in_time_says_why_of_both(*, exists: bool, why: str):
    given: dict[str, Any] = {} if exists else {"near_accuracy": None}
    w = world(**given)
    w.run_frames(20, every_us=FPS_25)
    w.rtt_us, w.near_us = (lambda _: 150 * MS), (lambda _: 400 * MS)
    w.run_frames(3, every_us=FPS_25, first_seq=21)
    assert w.given["s", 21].by is AnsweredBy.MISSED
    assert w.given["s", 21].reason == why


@pytest.mark.parametrize(
    ("near", "status", "words"),
    [
        (Near.NONE, Status.TIMEOUT, "no time for near"),
        (Near.RESERVED, Status.TIMEOUT, "near did not get to it"),
        (Near.RUNNING, Status.TIMEOUT, "near not done in time"),
        (Near.OVER, Status.TIMEOUT, "near not done in time"),
        (Near.OVER, Status.FAILED, "near failed"),
    ],
)
def test_why_near_did_not_answer_is_told_apart(near: Near, status: Status, words: str):
    times: dict[str, Any] = {
        "captured_us": 0,
        "deadline_us": 100,
        "answer_by_us": 96,
        "accepted_us": 1,
        "cost": None,
    }
    job = Job(key=("s", 1), priority=Priority.NORMAL, near=near, near_status=status, **times)
    assert job.why_not_near == words
