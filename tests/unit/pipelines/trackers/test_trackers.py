"""An answer carried forward: boxes go where the picture inside them goes, and what is lost is not invented."""

from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipelines.result import Detections
from pipelines.trackers.base import Base
from pipelines.trackers.flow import MOST_POINTS, SURE, FlowTracker
from pipelines.trackers.kinds import TRACKERS, FlowTrackerConfig
from pipelines.trackers.small_pictures import MOST, SmallPictures

SIZE = (640, 480)
Picture = NDArray[Any]


def texture(width: int, height: int, *, seed: int = 0) -> Picture:
    """Something to hold on to."""
    noise = np.random.default_rng(seed).integers(0, 255, (height, width), dtype=np.uint8)
    return np.asarray(cv2.GaussianBlur(noise, (0, 0), 4), np.uint8)


BACKGROUND = cv2.normalize(texture(*SIZE, seed=1), None, 40, 120, cv2.NORM_MINMAX)  # type: ignore[call-overload]
THING = cv2.normalize(texture(120, 160, seed=2), None, 60, 250, cv2.NORM_MINMAX)  # type: ignore[call-overload]


def scene(*at: tuple[float, float], grown: float = 1.0) -> Picture:
    """Things of 120 x 160 px whose centres are at `at`, in color."""
    picture = BACKGROUND.copy()
    for x, y in at:
        move = np.array([[grown, 0, x - 60 * grown], [0, grown, y - 80 * grown]], np.float32)
        placed = cv2.warpAffine(THING, move, SIZE)
        mask = cv2.warpAffine(np.full_like(THING, 255), move, SIZE)
        picture[mask > 127] = placed[mask > 127]
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_GRAY2BGR), np.uint8)


def boxes(*at: tuple[float, float], scores: tuple[float, ...] = ()) -> Detections:
    n = len(at)
    return Detections(
        np.array([(x - 60, y - 80, x + 60, y + 80) for x, y in at], np.float32).reshape(n, 4),
        np.array(scores or (0.9,) * n, np.float32),
        np.arange(n, dtype=np.uint16) % 2,
        ("a", "b"),
    )


def base(seq: int, seen: Detections, *, worth: float = 0.5, model: str = "near") -> Base:
    return Base(seq=seq, detections=seen, worth=worth, model=model, model_sha256="0" * 64)


def tracker(*pictures: Picture, max_age: int = 5, first: int = 1) -> FlowTracker:
    made = FlowTracker(max_age=max_age)
    for seq, picture in enumerate(pictures, start=first):
        made.see(seq, picture, captured_us=seq * 40_000, oldest=first)
    return made


def centres(seen: Detections) -> NDArray[np.float32]:
    return np.asarray((seen.boxes[:, :2] + seen.boxes[:, 2:]) / 2, np.float32)


def test_a_box_goes_where_the_thing_in_it_goes():
    made = tracker(*(scene((150 + 14 * i, 200 + 6 * i), (450 - 9 * i, 300)) for i in range(6)))
    made.rebase(base(1, boxes((150, 200), (450, 300))))
    for seq in range(2, 7):
        carried = made.carry(seq)
        assert carried is not None
        moved = carried.detections
        order = np.argsort(moved.class_ids)
        wanted = [(150 + 14 * (seq - 1), 200 + 6 * (seq - 1)), (450 - 9 * (seq - 1), 300)]
        assert np.abs(centres(moved)[order] - wanted).max() < 4
        assert (carried.age_frames, carried.age_us) == (seq - 1, (seq - 1) * 40_000)


def test_frames_that_were_not_carried_on_the_way_cost_nothing_and_no_accuracy():
    made = tracker(*(scene((150 + 20 * i, 200)) for i in range(6)))
    made.rebase(base(1, boxes((150, 200))))
    carried = made.carry(6)
    assert carried is not None
    assert np.abs(centres(carried.detections) - [(250, 200)]).max() < 4


def test_a_thing_that_comes_nearer_gets_a_larger_box():
    made = tracker(*(scene((300, 240), grown=1 + 0.05 * i) for i in range(4)))
    made.rebase(base(1, boxes((300, 240))))
    carried = made.carry(4)
    assert carried is not None
    width = carried.detections.boxes[0, 2] - carried.detections.boxes[0, 0]
    assert 120 * 1.04 < width < 120 * 1.18, "half of what its points say: the rest may be noise"


def test_scores_fall_with_age_and_never_rise():
    made = tracker(*(scene((150 + 8 * i, 200)) for i in range(6)))
    made.rebase(base(1, boxes((150, 200))))
    scores = [0.9]
    for seq in range(2, 7):
        carried = made.carry(seq)
        assert carried is not None
        scores.append(float(carried.detections.scores[0]))
    assert all(later < earlier for earlier, later in pairwise(scores))
    assert scores[-1] <= 0.9 * SURE**5


def test_a_box_whose_thing_is_gone_leaves_and_the_others_stay():
    made = tracker(scene((150, 200), (450, 300)), scene((160, 200)))
    made.rebase(base(1, boxes((150, 200), (450, 300))))
    carried = made.carry(2)
    assert carried is not None
    assert carried.detections.class_ids.tolist() == [0]


def test_a_box_whose_centre_leaves_the_picture_leaves():
    made = tracker(*(scene((600 + 15 * i, 200), (200, 300)) for i in range(5)))
    made.rebase(base(1, boxes((600, 200), (200, 300))))
    carried = made.carry(5)
    assert carried is not None
    assert carried.detections.class_ids.tolist() == [1]
    assert carried.detections.boxes.max() <= 640


def test_when_all_is_lost_there_is_no_answer_rather_than_no_objects():
    made = tracker(scene((150, 200)), np.zeros((480, 640, 3), np.uint8))
    made.rebase(base(1, boxes((150, 200))))
    assert made.carry(2) is None


def test_an_answer_that_showed_nothing_is_carried_as_nothing():
    made = tracker(scene(), scene())
    made.rebase(base(1, boxes()))
    carried = made.carry(2)
    assert carried is not None
    assert len(carried.detections) == 0


def test_nothing_is_carried_further_than_its_age():
    made = tracker(*(scene((150, 200)) for _ in range(6)), max_age=3)
    made.rebase(base(1, boxes((150, 200))))
    assert [made.carry(seq) is not None for seq in range(1, 7)] == [False, True, True, True, False, False]


def test_a_far_answer_that_comes_late_is_carried_forward_instead_of_a_newer_near_one():
    made = tracker(*(scene((150 + 10 * i, 200)) for i in range(5)))
    made.rebase(base(3, boxes((170, 200)), worth=0.5, model="near"))
    first = made.carry(4)
    made.rebase(base(1, boxes((150, 200)), worth=1.0, model="far"))
    second = made.carry(5)
    assert first is not None
    assert second is not None
    assert (first.base.model, second.base.model, second.age_frames) == ("near", "far", 4)
    assert np.abs(centres(second.detections) - [(190, 200)]).max() < 4


def test_a_newer_answer_of_the_same_worth_replaces_an_older_one():
    made = tracker(*(scene((150, 200)) for _ in range(4)))
    made.rebase(base(1, boxes((150, 200))))
    made.rebase(base(3, boxes((150, 200))))
    carried = made.carry(4)
    assert carried is not None
    assert carried.base.seq == 3


def test_of_two_answers_for_one_frame_the_better_one_stays_whichever_came_first():
    for order in ((0.5, 1.0), (1.0, 0.5)):
        made = tracker(scene((150, 200)), scene((150, 200)))
        for worth in order:
            made.rebase(base(1, boxes((150, 200)), worth=worth))
        carried = made.carry(2)
        assert carried is not None
        assert carried.base.worth == 1.0


def test_an_answer_for_a_forgotten_frame_changes_nothing():
    made = tracker(scene((150, 200)), scene((150, 200)), first=50)
    made.rebase(base(7, boxes((150, 200))))
    assert made.carry(51) is None


def test_a_frame_nobody_showed_it_cannot_be_carried_to():
    made = tracker(scene((150, 200)))
    made.rebase(base(1, boxes((150, 200))))
    assert made.carry(2) is None


def test_a_camera_that_changes_its_size_starts_anew():
    made = tracker(scene((150, 200)), np.zeros((720, 1280, 3), np.uint8))
    made.rebase(base(1, boxes((150, 200))))
    small = np.ascontiguousarray(scene((150, 200))[:300])
    made.see(3, small, captured_us=120_000, oldest=1)
    assert made.carry(3) is None


def test_thermal_pictures_of_16_bits_are_followed_though_their_contrast_changes():
    def thermal(x: int, *, offset: int) -> Picture:
        return np.asarray(scene((x, 200))[..., 0].astype(np.uint16) * 4 + 30_000 + offset, np.uint16)

    made = tracker(thermal(150, offset=0), thermal(165, offset=20))
    made.rebase(base(1, boxes((150, 200))))
    carried = made.carry(2)
    assert carried is not None
    assert np.abs(centres(carried.detections) - [(165, 200)]).max() < 4


def test_more_boxes_than_there_are_points_for_keep_the_best():
    at = [(80 + 30 * (i % 16), 90 + 40 * (i // 16)) for i in range(128)]
    made = tracker(scene(), scene())
    made.rebase(base(1, boxes(*at, scores=tuple(1.0 - i / 200 for i in range(128)))))
    carried = made.carry(2)
    assert carried is not None
    assert len(carried.detections) <= MOST_POINTS // 4
    assert carried.detections.scores.min() > 0.5 * SURE / 2


def test_pictures_are_forgotten_with_the_frames_that_can_still_be_asked_for():
    ring = SmallPictures()
    for seq in range(1, 30):
        ring.put(seq, scene(), captured_us=seq)
    ring.forget_before(25)
    assert list(ring) == [25, 26, 27, 28, 29]
    made = tracker(max_age=2)
    for seq in range(1, 100):
        made.see(seq, scene(), captured_us=seq, oldest=max(1, seq - 3))
    assert made.held <= 3 + 2 + 1


def test_however_long_nothing_is_answered_the_ring_is_bounded():
    ring = SmallPictures()
    for seq in range(1, MOST + 50):
        ring.put(seq, np.zeros((8, 8), np.uint8), captured_us=seq)
    assert len(ring) == MOST


def test_the_kind_makes_one_that_carries_as_far_as_its_configuration_says():
    made = TRACKERS.build(FlowTrackerConfig(kind="flow", max_age=2))
    for seq in (1, 2, 3, 4):
        made.see(seq, scene((200, 200)), captured_us=seq * 40_000, oldest=1)
    made.rebase(base(1, boxes((200, 200))))
    assert made.carry(3).age_frames == 2
    assert made.carry(4) is None


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_is_said_and_shown_boxes_stay_in_the_picture_and_scores_fall(data):
    width, height = data.draw(st.integers(1, 400)), data.draw(st.integers(1, 300))
    channels = data.draw(st.sampled_from([(), (3,)]))
    dtype = data.draw(st.sampled_from([np.uint8, np.uint16]))
    rng = np.random.default_rng(data.draw(st.integers(0, 5)))
    made = FlowTracker(max_age=4)
    n = data.draw(st.integers(0, 12))
    corners = np.sort(rng.uniform(-20, 420, (n, 2, 2)), axis=1).reshape(n, 4).astype(np.float32)
    seen = Detections(
        corners,
        rng.uniform(0, 1, n).astype(np.float32),
        rng.integers(0, 3, n).astype(np.uint16),
        ("x", "y", "z"),
    )
    for seq in range(1, 7):
        picture = rng.integers(0, np.iinfo(dtype).max, (height, width, *channels)).astype(dtype)
        made.see(seq, picture, captured_us=seq * 1000, oldest=1)
        if data.draw(st.booleans()):
            made.rebase(base(data.draw(st.integers(1, seq)), seen))
        carried = made.carry(seq)
        if carried is None:
            continue
        moved = carried.detections
        assert 1 <= carried.age_frames <= 4
        assert len(moved) <= n
        assert bool(len(moved)) == bool(n)
        assert np.isfinite(moved.boxes).all()
        assert (moved.boxes >= 0).all()
        assert (moved.boxes[:, [0, 2]] <= width + 1e-3).all()
        assert (moved.boxes[:, [1, 3]] <= height + 1e-3).all()
        assert (moved.boxes[:, 2:] >= moved.boxes[:, :2]).all()
        assert moved.scores.max(initial=0) <= seen.scores.max(initial=0)
        assert (np.diff(moved.scores) <= 0).all(), "best score first"


def test_answers_that_come_while_nothing_is_answered_do_not_pile_up() -> None:
    tracker = FlowTracker(max_age=5)
    picture = np.zeros((24, 32, 3), np.uint8)
    for seq in range(3 * MOST):
        tracker.see(seq, picture, captured_us=seq, oldest=0)
        tracker.rebase(Base(seq=seq, detections=Detections.empty(), worth=0.5))
    assert tracker.held <= 2 * MOST
