"""Near's time goes to what matters more, whatever the link promises and whoever comes first."""

import random
from itertools import pairwise
from typing import Any

import pytest

from edge.scheduling.fair_share import WEIGHTS
from edge.scheduling.settings import StreamSettings
from pipelines.result import AnsweredBy, Priority
from tests.support.virtual import LADDER, MS, World, world

STREAMS = {p.value: StreamSettings(pixels=320 * 240, priority=p) for p in Priority}
LOW_FIRST = ("low", "normal", "high")
FRAMES = 300
EVERY = 66 * MS
NEAR = AnsweredBy.NEAR


def crowded(near_ms: int, **changes: Any) -> World:
    """Three cameras in step, the least important a moment ahead, on a near that is too slow for them."""
    w = world(streams=STREAMS, ladder=LADDER, near_prior_us=near_ms * MS, **changes)
    w.near_us = lambda _: near_ms * MS
    return w


def answered(w: World, stream: str) -> int:
    good = (AnsweredBy.NEAR, AnsweredBy.FAR)
    return sum(key[0] == stream and by in good for key, (_, by) in w.released.items())


def played(policy: str, near_ms: int, seed: int) -> World:
    """A link that is good and bad by turns of 0.4 s, or whose round trips scatter from frame to frame."""
    w = crowded(near_ms, policy=policy)
    w.wire.bytes_per_us = 1.0
    dice = random.Random(seed)
    bad = [dice.random() < 0.5 for _ in range(60)]
    scatter = [int((30 + dice.expovariate(1 / 40)) * MS) for _ in range(2_000)]

    def rtt_us(now_us: int) -> int | None:
        turn = now_us // (400 * MS)
        if turn // 10 % 2:
            return scatter[now_us // (15 * MS) % len(scatter)]
        return 150 * MS if bad[turn % len(bad)] else 20 * MS

    w.rtt_us = rtt_us
    w.run_frames(FRAMES, every_us=EVERY, streams=LOW_FIRST)
    return w


@pytest.mark.parametrize("near_ms", [30, 40, 60])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_cloud_takes_nothing_from_the_stream_that_matters_most(near_ms, seed):
    alone, both = played("near_only", near_ms, seed), played("deadline", near_ms, seed)
    assert answered(both, "high") >= answered(alone, "high") - 0.01 * FRAMES
    total = [sum(answered(w, stream) for stream in LOW_FIRST) for w in (alone, both)]
    assert total[1] > total[0], "and others are answered that near alone had no time for"
    assert both.late() == []


H, N, L = Priority.HIGH, Priority.NORMAL, Priority.LOW


@pytest.mark.parametrize("jitter_ms", [0, 3])
@pytest.mark.parametrize(
    ("cameras", "near_ms", "period_ms"),
    [
        ([("low", L, 0), ("normal", N, 1), ("high", H, 2)], 60, 66),
        ([("high", H, 0), ("normal", N, 5), ("low", L, 10)], 60, 66),
        ([("low", L, 0), ("high", H, 50)], 80, 100),
        ([("high", H, 0), ("low", L, 1)], 60, 66),
        ([("a", N, 0), ("b", N, 10)], 60, 100),
        ([("a", N, 0), ("b", N, 15)], 60, 66),
    ],
    ids=["least first", "most first", "half a period apart", "two", "equals", "busy equals"],
)
def test_cameras_in_step_share_near_by_what_they_matter_whoever_comes_first(
    cameras, near_ms, period_ms, jitter_ms
):
    """A run in progress gives way too: else who comes first with every picture has near for ever."""
    streams = {name: StreamSettings(pixels=320 * 240, priority=p) for name, p, _ in cameras}
    w = world(streams=streams, near_prior_us=near_ms * MS, connect=False)
    w.near_us = lambda _: near_ms * MS
    dice = random.Random(3)
    begun_us, seconds = w.now_us + 5 * MS, 20
    due = sorted(
        (begun_us + int((offset_ms + k * period_ms + dice.uniform(-jitter_ms, jitter_ms)) * MS), name, k)
        for name, _, offset_ms in cameras
        for k in range(1, seconds * 1000 // period_ms)
    )
    for at_us, name, seq in due:
        w.run_until(max(at_us, w.now_us))
        w.frame(seq, name)
    w.run_until(w.now_us + 500 * MS)
    per_weight = [answered(w, name) / WEIGHTS[p] for name, p, _ in cameras]
    assert max(per_weight) <= 2.5 * min(per_weight)
    for name, _, _ in cameras:
        given = sorted(at for (stream, _), (at, by) in w.released.items() if stream == name and by is NEAR)
        assert max(after - before for before, after in pairwise(given)) <= 1_500 * MS
    assert sum(answered(w, name) for name, _, _ in cameras) >= 0.7 * seconds * 1000 / period_ms
    assert w.late() == []


def test_a_run_that_ends_well_though_it_was_to_be_stopped_answers_its_frame():
    w = crowded(60)
    w.stop_us = None
    w.run_frames(10, every_us=EVERY, streams=("low",))
    w.worker_us = lambda _: 90 * MS
    w.run_frames(3, every_us=EVERY, first_seq=11, streams=("low",))  # far is hoped for and not sure any more
    w.frame(14, "low")
    w.run_until(w.now_us + 5 * MS)
    key = ("low", 14)
    assert w.near_busy == key
    w.frame(14, "high")
    assert w.scheduler.near.stopped is not None
    w.run_until(w.now_us + 500 * MS)
    assert w.released[key][1] is AnsweredBy.NEAR


def test_a_detector_that_cannot_be_stopped_is_not_asked_to_for_every_frame():
    w = crowded(60, connect=False)
    w.stop_us = None
    w.run_frames(FRAMES, every_us=EVERY, streams=LOW_FIRST)
    assert sum(reason == "priority" for reason in w.shed_for.values()) < 0.1 * FRAMES
    assert answered(w, "low") + answered(w, "normal") + answered(w, "high") >= 0.8 * FRAMES
    assert w.late() == []
