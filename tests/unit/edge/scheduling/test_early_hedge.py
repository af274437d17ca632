"""When near starts behind a frame that is under way to far: at once where far is doubtful and near has nothing else."""

from collections.abc import Mapping
from typing import Any

import pytest

from edge.scheduling.actions import StartNear
from edge.scheduling.job import Job
from edge.scheduling.key import Key
from edge.scheduling.near.lead import NearLead
from edge.scheduling.near.way import NearWay
from edge.scheduling.settings import StreamSettings
from pipelines.result import AnsweredBy
from tests.support.virtual import MS, World, world

FPS_15 = 67 * MS
RUN_MS = 10


def beside_far(*, slow_every: int, **changes: Any) -> World:
    """A world whose worker is too slow with every `slow_every`th frame, with none for 0; its near has long been known."""
    w = world(**changes)
    w.near_us = lambda _: RUN_MS * MS
    w.rtt_us = lambda _: 1 * MS
    for _ in range(600):
        w.scheduler.near.lead.took(RUN_MS * MS, frame_us=100 * MS)
    sent = iter(range(1, 1_000_000))
    w.worker_us = lambda _: (120 if slow_every and next(sent) % slow_every == 0 else 60) * MS
    return w


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Key, int]]:
    """Every near run: of which frame, and how long after its capture it began."""
    runs: list[tuple[Key, int]] = []
    start_next = NearWay.start_next

    def watched(near: NearWay, jobs: Mapping[Key, Job], now_us: int) -> StartNear | None:
        start = start_next(near, jobs, now_us)
        if start is not None:
            runs.append((start.key, now_us - jobs[start.key].captured_us))
        return start

    monkeypatch.setattr(NearWay, "start_next", watched)
    return runs


def later(begun: list[tuple[Key, int]], than: int) -> list[int]:
    """How long after their capture the runs of frames after the `than`th began."""
    return [after_us for (_, seq), after_us in begun if seq > than]


def test_behind_a_far_that_is_late_now_and_then_near_starts_as_soon_as_the_picture_is_encoded(begun):
    w = beside_far(slow_every=4)
    w.run_frames(80, every_us=FPS_15)
    after_us = later(begun, 40)
    assert len(after_us) >= 38
    assert sum(us <= w.encode_us + 1 * MS for us in after_us) >= 0.9 * len(after_us)
    assert w.share(AnsweredBy.FAR) > 0.5  # and its answer waits for far's
    assert w.late() == []


def test_behind_a_far_that_is_always_in_time_near_waits_and_most_runs_are_saved(begun):
    w = beside_far(slow_every=0)
    w.run_frames(80, every_us=FPS_15)
    assert w.share(AnsweredBy.FAR) > 0.9
    assert len(later(begun, 40)) <= 8
    assert all(us > 50 * MS for us in later(begun, 40))


def test_a_pause_of_the_machine_during_a_doubtful_frames_run_costs_no_deadline(monkeypatch):
    w = beside_far(slow_every=4)
    monkeypatch.setattr(NearLead, "took", lambda *_, **__: None)  # what comes now was never seen before
    runs = iter(range(1, 1_000_000))
    w.near_us = lambda _: (60 if next(runs) % 20 == 0 else RUN_MS) * MS
    w.run_frames(400, every_us=FPS_15)
    assert w.late() == []
    assert w.share(AnsweredBy.MISSED) == 0
    assert w.share(AnsweredBy.FAR) > 0.5


def test_near_that_is_promised_to_other_frames_too_is_not_taken_early(begun):
    streams = {name: StreamSettings(pixels=320 * 240) for name in ("a", "b", "c")}
    w = beside_far(slow_every=4, streams=streams)
    w.run_frames(60, every_us=FPS_15, streams=tuple(streams))
    after_us = later(begun, 30)
    assert sum(us > 20 * MS for us in after_us) >= len(after_us) / 3


def before_deadline(w: World, than: int) -> list[int]:
    """How long before its deadline near answered each frame after the `than`th that had been sent, in µs."""
    sent = {key for _, key, _ in w.offloaded}
    return [
        w.deadlines[key] - at_us
        for key, (at_us, by) in w.released.items()
        if key[1] > than and key in sent and by is AnsweredBy.NEAR
    ]


def test_for_a_far_that_will_hardly_come_near_does_not_wait_to_the_last_moment():
    hopeless, doubtful = beside_far(slow_every=1), beside_far(slow_every=3)
    hopeless.run_frames(200, every_us=FPS_15)
    doubtful.run_frames(200, every_us=FPS_15)
    wake_up = hopeless.scheduler.wake_up
    early_us = wake_up.hold_unlikely_us - wake_up.commit_us
    assert early_us > wake_up.hold_us
    assert len(before_deadline(hopeless, 60)) > 10  # it is asked now and then all the same
    assert min(before_deadline(hopeless, 60)) >= early_us
    assert min(before_deadline(doubtful, 60)) < early_us
