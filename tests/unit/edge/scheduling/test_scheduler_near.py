"""When near is short: who gets it, what stands in for it, and how it is said."""

from itertools import count, pairwise
from typing import Any

import numpy as np
import pytest

from edge.scheduling.priority_rule import PriorityRule
from edge.scheduling.rung import Rung
from edge.scheduling.settings import SmallNear, StreamSettings, Tracking
from pipelines.result import AnsweredBy, Detections, Priority
from tests.support.virtual import MS, World, world

FPS_25 = 40 * MS


def three_streams(**changes: Any) -> World:
    """High, normal and low, on a near that makes a third of their frames."""
    streams = {p.value: StreamSettings(pixels=320 * 240, priority=p) for p in Priority}
    w = world(streams=streams, **changes)
    w.near_us = lambda _: 35 * MS
    for _ in range(20):
        w.scheduler.near.estimate.observe(35 * MS)
    return w


def near_answers(w: World, stream: str) -> int:
    return sum(by is AnsweredBy.NEAR for key, (_, by) in w.released.items() if key[0] == stream)


# -- priority -------------------------------------------------------------------------------------------------


def test_a_short_near_is_shared_four_to_two_to_one():
    w = three_streams(connect=False)
    w.run_frames(500, every_us=FPS_25, streams=("low", "normal", "high"))
    low, normal, high = (near_answers(w, s) for s in ("low", "normal", "high"))
    assert 1.4 <= normal / low <= 2.8
    assert 1.4 <= high / normal <= 2.8
    assert low + normal + high >= 450
    assert w.late() == []


def test_every_frame_of_three_streams_is_answered_or_shed_with_a_reason():
    w = three_streams(connect=False)
    w.run_frames(200, every_us=FPS_25, streams=("low", "normal", "high"))
    assert len(w.released) + len(w.shed_for) == 600
    assert set(w.shed_for.values()) <= {"slot_overwritten", "overload", "priority"}


def test_no_priority_starves_another():
    streams = {"low": StreamSettings(pixels=1000, priority=Priority.LOW)} | {
        f"high{i}": StreamSettings(pixels=1000, priority=Priority.HIGH) for i in range(15)
    }
    w = world(connect=False, streams=streams)
    w.near_us = lambda _: 35 * MS
    w.run_frames(250, every_us=FPS_25, streams=tuple(streams))
    times = sorted(at for key, (at, by) in w.released.items() if key[0] == "low" and by is AnsweredBy.NEAR)
    assert len(times) >= 5
    assert max(b - a for a, b in pairwise(times)) <= 1_500 * MS


def test_a_slow_stream_whose_frames_find_near_taken_is_shed_for_overload_or_priority():
    w = three_streams(connect=False)
    for i in range(100):
        w.frame(i + 1, "high")
        if i % 10 == 0:  # 2.5 frames/s: nothing newer ever overwrites its slot in time
            w.frame(i + 1, "low")
            w.frame(i + 1, "normal")
        w.run_until(w.now_us + 20 * MS)
    w.run_until(w.now_us + 500 * MS)
    assert {"priority"} <= set(w.shed_for.values())
    assert w.share(AnsweredBy.MISSED) == 0.0
    assert w.late() == []


def test_a_more_important_frame_takes_the_slot_of_one_that_still_hopes_for_far():
    w = three_streams()
    w.run_frames(10, every_us=120 * MS, streams=("low",))
    w.worker_us = lambda _: 200 * MS
    for seq, stream in enumerate(("low", "normal", "low"), start=11):
        w.frame(seq, stream)
    w.frame(20, "high")
    assert ("high", 20) in [slot.key for slot in w.scheduler.near.timeline.slots]
    w.run_until(w.now_us + 500 * MS)
    assert w.released["high", 20][1] is AnsweredBy.NEAR
    assert w.late() == []


def test_a_short_link_is_shared_by_priority_too():
    w = three_streams(near_accuracy=None)
    w.wire.bytes_per_us = 0.5  # 25 frames/s of 20 kB, three times as many come
    w.run_frames(300, every_us=FPS_25, streams=("low", "normal", "high"))
    sent = [key[0] for _, key, _ in w.offloaded]
    assert sent.count("high") > 1.3 * sent.count("low")
    assert sent.count("low") >= 10


def boxes(*at: tuple[float, float], score: float = 0.9, label: str = "person") -> Detections:
    n = len(at)
    return Detections(
        np.array([(x - 5, y - 5, x + 5, y + 5) for x, y in at], np.float32).reshape(n, 4),
        np.full(n, score, np.float32),
        np.zeros(n, np.uint16),
        (label,),
    )


def test_what_the_previous_answer_showed_ranks_the_next_frames():
    rules = (
        PriorityRule(priority=Priority.HIGH, label="person", region=(0.0, 0.0, 0.5, 1.0)),
        PriorityRule(priority=Priority.LOW, label="car", count=2, score_above=0.5),
    )
    w = world(streams={"s": StreamSettings(pixels=1000, size_px=(320, 240), rules=rules)})
    s = w.scheduler

    def after(seen: Detections) -> Priority:
        s.saw("s", seen, w.now_us)
        return s.priority("s", w.now_us)

    assert after(boxes((20, 20))) is Priority.HIGH
    assert after(boxes((300, 20))) is Priority.NORMAL
    assert after(boxes((20, 20), label="car")) is Priority.NORMAL
    assert after(boxes((20, 20), (40, 40), label="car")) is Priority.LOW
    assert after(boxes((20, 20), (40, 40), label="car", score=0.4)) is Priority.NORMAL
    assert after(boxes()) is Priority.NORMAL


def test_an_old_answer_ranks_nothing():
    rule = PriorityRule(priority=Priority.HIGH, label="person")
    w = world(streams={"s": StreamSettings(pixels=1000, size_px=(320, 240), rules=(rule,))})
    w.scheduler.saw("s", boxes((20, 20)), w.now_us)
    assert w.scheduler.priority("s", w.now_us) is Priority.HIGH
    assert w.scheduler.priority("s", w.now_us + 3_000 * MS) is Priority.NORMAL


def test_the_lag_of_a_stream_is_seen_and_ends_with_the_overload():
    # F20: it must never grow without end.
    w = world(connect=False)
    w.run_frames(20, every_us=FPS_25)
    assert w.scheduler.lag_us()["s"] == 0
    w.near_us = lambda _: 90 * MS
    most_us = 0
    for seq in range(21, 121):
        w.frame(seq)
        w.run_until(w.now_us + FPS_25)
        most_us = max(most_us, w.scheduler.lag_us()["s"])
    assert 40 * MS <= most_us <= 250 * MS
    w.near_us = lambda _: 20 * MS
    w.run_frames(20, every_us=FPS_25, first_seq=121)
    assert w.scheduler.lag_us()["s"] == 0


# -- what stands in for near ----------------------------------------------------------------------------------


def test_a_smaller_input_answers_what_the_full_one_cannot_make():
    w = world(connect=False, small_near=SmallNear(accuracy=0.4, prior_us=8 * MS))
    w.near_us = lambda _: 60 * MS
    for _ in range(20):
        w.scheduler.near.estimate.observe(60 * MS)
    w.run_frames(100, every_us=50 * MS, streams=("s", "t"))
    small = [key for key, is_small in w.near_runs if is_small]
    assert len(small) >= 80
    assert w.share(AnsweredBy.NEAR) == 1.0
    assert len(w.released) >= 190
    assert w.late() == []


def test_the_full_input_is_used_whenever_it_fits():
    w = world(connect=False, small_near=SmallNear(accuracy=0.4, prior_us=8 * MS))
    w.run_frames(50, every_us=FPS_25)
    assert [key for key, is_small in w.near_runs if is_small] == []


def test_what_nobody_can_answer_is_carried_forward_from_the_last_answer_and_said_so():
    w = world(near_accuracy=None, tracking=Tracking(accuracy=0.3))
    w.run_frames(20, every_us=FPS_25)
    w.rtt_us = lambda _: None
    w.run_frames(20, every_us=FPS_25, first_seq=21)
    answered = [w.released["s", seq][1] for seq in range(21, 41)]
    assert answered[:5] == [AnsweredBy.TRACKED] * 5
    assert answered[5:] == [AnsweredBy.MISSED] * 15
    assert w.late() == []


def test_a_frame_is_valued_against_what_really_stands_behind_it():
    # Far at p = .5 and accuracy .6 is worth less than near at .58, and more than nothing.
    rung = Rung(codec="jpeg", quality=50, scale=1.0, accuracy=0.6)
    sent = {}
    for near_accuracy in (0.58, None):
        w = world(near_accuracy=near_accuracy, ladder=(rung,))
        turn = count()

        def worker_us(_: int, turn: "count[int]" = turn) -> int:
            return (15 if next(turn) % 2 else 140) * MS

        w.worker_us = worker_us
        w.run_frames(100, every_us=2 * FPS_25)
        sent[near_accuracy] = len(w.offloaded)
    assert sent[None] >= 90
    assert sent[0.58] <= 60


# -- confidence -----------------------------------------------------------------------------------------------


def test_the_confidence_policy_sends_only_what_near_was_unsure_of():
    w = world(policy="confidence")
    w.confidence = lambda key: 0.2 if key[1] % 2 else 0.9
    w.run_frames(60, every_us=FPS_25)
    sent = {key[1] % 2 for _, key, _ in w.offloaded}
    assert sent == {1}
    assert 0.4 <= w.share(AnsweredBy.FAR) <= 0.5
    assert w.late() == []


def test_under_the_confidence_policy_an_unsure_near_answer_is_given_when_far_does_not_come():
    w = world(policy="confidence")
    w.confidence = lambda _: 0.1
    w.run_frames(10, every_us=FPS_25)
    w.rtt_us = lambda _: None
    w.run_frames(50, every_us=FPS_25, first_seq=11)
    assert w.share(AnsweredBy.NEAR, first_seq=11) == 1.0
    assert w.late() == []


# -- nobody has time ------------------------------------------------------------------------------------------


def test_a_frame_that_far_gives_back_waits_for_a_near_that_is_busy():
    w = world()
    w.run_frames(10, every_us=FPS_25)
    for _ in range(20):
        w.scheduler.near.estimate.observe(60 * MS)  # time for one of two, as far as it knows
    w.rtt_us = lambda _: None
    w.frame(11, "s")
    w.frame(11, "t")
    w.run_until(w.now_us + 5 * MS)
    assert w.uncovered == [("t", 11)]
    w.disconnect()
    w.run_until(w.now_us + 200 * MS)
    assert [w.released[stream, 11][1] for stream in ("s", "t")] == [AnsweredBy.NEAR] * 2
    assert w.late() == []


def test_without_near_a_frame_that_has_a_small_chance_of_far_is_sent_rather_than_missed():
    w = world(near_accuracy=None)
    w.run_frames(10, every_us=FPS_25)
    w.encode_us = 60 * MS  # too long, by all that is known of the link
    w.worker_us = lambda _: MS
    w.frame(11)
    w.run_until(w.now_us + 200 * MS)
    assert w.released["s", 11][1] is AnsweredBy.FAR
    assert w.late() == []


def test_with_near_behind_it_the_same_frame_is_not_sent():
    w = world()
    w.run_frames(10, every_us=FPS_25)
    sent = len(w.offloaded)
    w.encode_us = 60 * MS
    w.frame(11)
    w.run_until(w.now_us + 200 * MS)
    assert len(w.offloaded) == sent
    assert w.released["s", 11][1] is AnsweredBy.NEAR


def test_a_hedge_starts_early_enough_for_the_longest_run_seen_and_far_still_wins():
    w = world()
    w.near_us = lambda _: 10 * MS
    w.rtt_us = lambda _: 1 * MS
    w.worker_us = lambda _: 60 * MS
    w.scheduler.near.lead.took(50 * MS, frame_us=100 * MS)
    w.run_frames(50, every_us=2 * FPS_25)
    assert w.share(AnsweredBy.FAR) >= 0.9
    begun = {key for key, _ in w.near_runs}
    assert len(begun) >= 45  # near ran beside far and its answer was held, not given


@pytest.mark.parametrize("run_ms", [60, 97, 98])
def test_no_answer_that_near_has_in_time_is_late_for_a_commit_that_never_comes(run_ms):
    w = world(policy="near_only")
    w.commit_us = None
    w.near_us = lambda _: run_ms * MS
    w.run_frames(20, every_us=250 * MS)
    assert w.share(AnsweredBy.NEAR) == 1.0
    assert min(w.deadlines[key] - at_us for key, (at_us, _) in w.released.items()) > 0
