"""Answers carried forward on the way to the sinks: honest when there is none, and never on the dispatcher's thread."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edge.flow.pending import Pending
from edge.flow.timing import tracked_timing
from edge.flow.track_runner import PICTURES_WAITING, TrackRun, TrackRunner
from edge.flow.tracking import Tracking, give_honestly
from edge.near.names import NearNames
from edge.near.runner import NearRun, NearRunner
from edge.scheduling.actions import Give
from edge.scheduling.settings import SmallNear
from pipelines.errors import Rejected
from pipelines.frame import Frame
from pipelines.result import AnsweredBy, Detections, Load, Priority, Status, WorkerTiming
from pipelines.runtime import monotonic_us
from pipelines.trackers.base import Base, Carried
from protos.wire.live import Result
from tests.support.eventually import eventually
from tests.support.virtual import LADDER, settings
from tests.support.workers import GatedDetector

KEY = ("door", 7)
SEEN = Detections(np.ones((1, 4), np.float32), np.ones(1, np.float32), np.zeros(1, np.uint16), ("thing",))


def frame(seq: int = 7, stream: str = "door") -> Frame:
    picture = np.zeros((24, 32, 3), np.uint8)
    return Frame(
        stream=stream, seq=seq, picture=picture, captured_us=seq, available_us=seq, captured_unix_us=1
    )


def carried() -> Carried:
    base = Base(seq=5, detections=SEEN, worth=1.0, model="far", model_sha256="ab" * 32)
    return Carried(detections=SEEN, base=base, age_frames=2, age_us=80_000)


def pending(track: TrackRun | None, *, reason: str = "no time for near") -> Pending:
    made = Pending(frame=frame(), deadline_us=100_000, accepted_us=1, priority=Priority.NORMAL)
    made.give = Give(KEY, AnsweredBy.TRACKED, Status.OK, reason, hold=True)
    made.track = track
    return made


def run(what: Carried | None) -> TrackRun:
    return TrackRun(key=KEY, carried=what, ready_us=10, took_us=5)


class Scripted:
    """A tracker that remembers what it was told; it waits in `gate` while that is cleared, and breaks on demand."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False

    @classmethod
    def from_config(cls, _: Any) -> "Scripted":
        return cls()

    def see(self, seq: int, picture: Any, *, captured_us: int, oldest: int) -> None:
        self.gate.wait(10)
        self.told.append(("see", seq, picture.shape, captured_us, oldest))

    def rebase(self, base: Base) -> None:
        self.told.append(("rebase", base.seq, base.worth, base.model))

    def carry(self, seq: int) -> Carried | None:
        if self.broken:
            raise RuntimeError("broken")
        self.told.append(("carry", seq))
        return carried() if seq == 7 else None


@pytest.fixture
def scripted():
    tracker = Scripted()
    done: list[TrackRun] = []
    runner = TrackRunner({"door": tracker}, done=done.append, clock_us=monotonic_us)
    runner.start()
    yield SimpleNamespace(tracker=tracker, runner=runner, done=done)
    tracker.gate.set()
    runner.close()


# -- honesty ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("track", "why"),
    [(None, "tracker not done in time"), (run(None), "nothing to carry forward")],
)
def test_a_tracked_answer_that_is_none_is_missed_and_says_why(track: TrackRun | None, why: str) -> None:
    made = pending(track)
    give_honestly(made)
    assert made.give is not None
    assert (made.give.by, made.give.status) == (AnsweredBy.MISSED, Status.TIMEOUT)
    assert made.give.reason == f"no time for near; {why}"


def test_a_tracked_answer_that_is_there_stays_one_and_other_answers_are_left_alone() -> None:
    made = pending(run(carried()))
    give_honestly(made)
    assert made.give is not None
    assert made.give.by is AnsweredBy.TRACKED
    made.give = Give(KEY, AnsweredBy.NEAR, Status.OK, "", hold=True)
    made.track = None
    give_honestly(made)
    assert made.give.by is AnsweredBy.NEAR


def test_the_parts_of_a_tracked_answer_add_up_without_its_age() -> None:
    parts = tracked_timing(
        captured_us=0,
        accepted_us=1_000,
        ready_us=90_000,
        given_us=94_000,
        released_us=95_000,
        age_us=80_000,
        run_us=3_000,
    )
    assert parts.pop("age") == 80_000
    assert sum(parts.values()) == 95_000
    assert parts["unexplained"] == 0
    assert (parts["track"], parts["hold"], parts["commit"]) == (3_000, 4_000, 1_000)


# -- what detectors say -------------------------------------------------------------------------------------------


def test_far_near_and_smaller_answers_are_worth_what_the_recipe_says(scripted: Any) -> None:
    tracking = Tracking(
        scripted.runner,
        settings=settings(ladder=LADDER, near_accuracy=0.5, small_near=SmallNear(accuracy=0.4, prior_us=1)),
        near=NearNames(full="near@224", smaller="near@160", sha256="ab" * 32),
    )
    tracking.accepted(frame(), oldest=3)
    near = NearRun(key=KEY, status=Status.OK, detections=SEEN, started_us=0, run_us=1)
    tracking.near_said(near)
    tracking.near_said(
        NearRun(key=KEY, status=Status.OK, detections=SEEN, started_us=0, run_us=1, small=True)
    )
    tracking.near_said(NearRun(key=KEY, status=None, detections=None, started_us=0, run_us=1))
    far = Result(
        stream=0, seq=7, detections=SEEN, model="far", model_sha256="", timing=WorkerTiming(), load=Load()
    )
    tracking.far_said(KEY, far)
    tracking.far_said(("", 7), far)
    tracking.carry(KEY)
    eventually(lambda: scripted.done, what="the carrying")
    assert scripted.tracker.told == [
        ("see", 7, (24, 32, 3), 7, 3),
        ("rebase", 7, 0.5, "near@224"),
        ("rebase", 7, 0.4, "near@160"),
        ("rebase", 7, 0.98, "far"),
        ("carry", 7),
    ]


# -- the thread ---------------------------------------------------------------------------------------------------


def test_every_order_ends_even_of_a_tracker_that_breaks(scripted: Any) -> None:
    scripted.runner.carry(KEY)
    scripted.runner.carry(("door", 9))
    eventually(lambda: len(scripted.done) == 2, what="both")
    scripted.tracker.broken = True
    scripted.runner.carry(KEY)
    eventually(lambda: len(scripted.done) == 3, what="the broken one")
    assert [made.carried is None for made in scripted.done] == [False, True, True]
    assert all(made.took_us >= 0 and made.ready_us > 0 for made in scripted.done)
    assert scripted.runner.counts == (3, 2, 0)


def test_pictures_that_come_faster_than_they_are_looked_at_are_skipped_and_counted(scripted: Any) -> None:
    scripted.tracker.gate.clear()
    for seq in range(1, PICTURES_WAITING + 11):
        scripted.runner.see(frame(seq), oldest=1)
    scripted.tracker.gate.set()
    eventually(lambda: len(scripted.tracker.told) >= PICTURES_WAITING, what="the pictures")
    assert 9 <= scripted.runner.counts.skipped <= 10


def test_near_runs_at_the_input_it_is_asked_for_and_says_which() -> None:
    done: list[NearRun] = []
    full, smaller = GatedDetector(), GatedDetector()
    runner = NearRunner(full, smaller=smaller, done=done.append, clock_us=monotonic_us)
    runner.start()
    runner.submit(KEY, np.zeros((8, 8, 3), np.uint8), small=True)
    eventually(lambda: len(done) == 1, what="the small run")
    runner.submit(KEY, np.zeros((8, 8, 3), np.uint8))
    eventually(lambda: len(done) == 2, what="the full run")
    runner.close()
    assert [made.small for made in done] == [True, False]
    assert (full.runs, smaller.runs) == (1, 1)


def test_a_stream_that_is_quick_takes_no_place_from_a_slow_one() -> None:
    quick, slow = Scripted(), Scripted()
    runner = TrackRunner({"door": quick, "gate": slow}, done=lambda _: None, clock_us=monotonic_us)
    quick.gate.clear()
    runner.start()
    for seq in range(3 * PICTURES_WAITING):
        runner.see(frame(seq), oldest=0)
    runner.see(frame(1, "gate"), oldest=0)
    skipped = runner.counts.skipped
    quick.gate.set()
    eventually(lambda: slow.told, what="the picture of the slow stream")
    assert skipped >= PICTURES_WAITING
    runner.close()


def test_pictures_a_tracker_cannot_look_at_are_counted_and_said_once_per_stream(caplog: Any) -> None:
    class Picky(Scripted):
        def see(self, seq: int, picture: Any, *, captured_us: int, oldest: int) -> None:
            raise Rejected("a picture of shape (24, 32, 2) cannot be tracked")

    trackers: Any = {"door": Picky(), "gate": Picky()}
    runner = TrackRunner(trackers, done=lambda _: None, clock_us=monotonic_us)
    runner.start()
    for seq in range(5):
        runner.see(frame(seq), oldest=0)
        runner.see(frame(seq, "gate"), oldest=0)
    eventually(lambda: runner.counts.skipped == 10, what="all pictures")
    runner.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"stream {name}: nothing can be tracked: a picture of shape (24, 32, 2) cannot be tracked"
        for name in ("door", "gate")
    ]
