"""What every tracker promises, whatever it looks at; one built of its configuration as a recipe would."""

import re
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.errors import Rejected
from pipelines.registry import Kind
from pipelines.result import Detections
from pipelines.trackers.base import Base, Tracker
from pipelines.trackers.kinds import TRACKERS

MAX_AGE = 3
STEP_PX = 4
STREET = cv2.GaussianBlur(np.random.default_rng(3).integers(0, 255, (240, 480, 3), np.uint8), (0, 0), 2)


def shown(seq: int) -> NDArray[Any]:
    """A street that goes by, 320x240."""
    return np.ascontiguousarray(STREET[:, STEP_PX * seq : STEP_PX * seq + 320])


def said(seq: int, *, boxes: int = 2, worth: float = 0.5) -> Base:
    left = np.arange(boxes) * 90 + 60
    corners = np.stack([left, left * 0 + 80, left + 60, left * 0 + 160], axis=1).astype(np.float32)
    seen = Detections(corners, np.full(boxes, 0.8, np.float32), np.arange(boxes, dtype=np.uint16), ("a", "b"))
    return Base(seq=seq, detections=seen, worth=worth)


@pytest.fixture(params=list(TRACKERS), ids=lambda kind: kind.name)
def tracker(request: pytest.FixtureRequest) -> Tracker:
    kind: Kind = request.param
    made: Tracker = TRACKERS.build(kind.config.model_validate({"kind": kind.name, "max_age": MAX_AGE}))
    for seq in range(1, 9):
        made.see(seq, shown(seq), captured_us=seq * 100_000, oldest=1)
    return made


def test_it_carries_what_was_said_in_the_same_labels_and_says_how_old_it_is(tracker: Tracker) -> None:
    tracker.rebase(said(2))
    carried = tracker.carry(5)
    assert carried is not None
    assert (carried.base.seq, carried.age_frames, carried.age_us) == (2, 3, 300_000)
    assert carried.detections.labels == ("a", "b")
    assert set(carried.detections.class_ids.tolist()) <= {0, 1}
    moved = carried.detections.boxes[:, 0] - said(2).detections.boxes[carried.detections.class_ids, 0]
    assert np.abs(moved + 3 * STEP_PX).max() < 3


def test_it_says_nothing_without_something_young_enough(tracker: Tracker) -> None:
    assert tracker.carry(5) is None
    tracker.rebase(said(2))
    assert tracker.carry(2 + MAX_AGE + 1) is None
    assert tracker.carry(2) is None, "a frame's own answer is no answer carried forward"
    assert tracker.carry(1) is None
    assert tracker.carry(99) is None, "a frame it was not shown"


def test_no_objects_and_all_lost_are_told_apart(tracker: Tracker) -> None:
    tracker.rebase(said(5, boxes=0))
    carried = tracker.carry(6)
    assert carried is not None
    assert len(carried.detections) == 0
    tracker.rebase(said(5, worth=0.9))
    tracker.see(9, np.zeros((240, 320, 3), np.uint8), captured_us=900_000, oldest=6)
    tracker.rebase(said(8, worth=0.9))
    assert tracker.carry(9) is None


def test_a_better_answer_of_the_same_frame_replaces_a_worse_one_however_late(tracker: Tracker) -> None:
    tracker.rebase(said(4, worth=0.5))
    assert tracker.carry(5) is not None
    tracker.rebase(said(4, boxes=1, worth=1.0))
    tracker.rebase(said(4, worth=0.5))
    carried = tracker.carry(6)
    assert carried is not None
    assert carried.base.worth == 1.0


def test_no_score_rises_on_the_way(tracker: Tracker) -> None:
    tracker.rebase(said(1))
    for seq in range(2, 2 + MAX_AGE):
        carried = tracker.carry(seq)
        assert carried is not None
        assert carried.detections.scores.max(initial=0) < 0.8


def test_one_picture_after_another_of_any_size_and_depth_is_taken(tracker: Tracker) -> None:
    odd: list[NDArray[Any]] = [
        np.zeros((1, 1), np.uint8),
        np.zeros((2000, 3, 3), np.uint8),
        np.full((48, 64), 40_000, np.uint16),
    ]
    for seq, picture in enumerate(odd, start=9):
        tracker.see(seq, picture, captured_us=seq, oldest=8)
        tracker.rebase(said(seq - 1))
        carried = tracker.carry(seq)
        assert carried is None or len(carried.detections) == 0


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((24, 32, 2), np.uint8),
        np.zeros((24, 32, 5), np.uint8),
        np.zeros((0, 32, 3), np.uint8),
        np.zeros((24, 0), np.uint8),
        np.zeros((24, 32, 3), np.int64),
    ],
    ids=lambda picture: f"{picture.shape}-{picture.dtype}",
)
def test_a_picture_it_cannot_look_at_is_rejected_with_its_shape_and_hurts_no_other(
    tracker: Tracker, picture: NDArray[Any]
) -> None:
    tracker.rebase(said(8))
    with pytest.raises(Rejected, match=re.escape(f"shape {picture.shape}")):
        tracker.see(9, picture, captured_us=900_000, oldest=1)
    tracker.see(10, shown(10), captured_us=1_000_000, oldest=1)
    assert tracker.carry(9) is None
    assert tracker.carry(10) is not None
