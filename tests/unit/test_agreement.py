"""When two models saw the same."""

import numpy as np
import pytest

from pipelines.agreement import disagree, overlaps, unmatched
from pipelines.result import Detections


def seen(*boxes: tuple[float, float, float, float], labels: tuple[str, ...] = ("a",), ids=()) -> Detections:
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.full(len(boxes), 0.5, np.float32),
        np.array(ids or [0] * len(boxes), np.uint16),
        labels,
    )


def test_overlap_is_the_shared_part_of_the_joined_area_and_nothing_for_a_box_without_area():
    one = np.array([[0, 0, 10, 10], [5, 5, 5, 5]], np.float32)
    other = np.array([[0, 0, 10, 5], [20, 20, 30, 30], [5, 0, 15, 10]], np.float32)
    assert overlaps(one, other) == pytest.approx(np.array([[0.5, 0, 1 / 3], [0, 0, 0]]))


def test_boxes_of_one_label_that_overlap_by_half_are_the_same_thing_whatever_their_class_numbers():
    near = seen((0, 0, 10, 10), labels=("x", "a"), ids=[1])
    assert unmatched(near, seen((0, 0, 10, 6))) == (0, 0)
    assert unmatched(near, seen((0, 0, 10, 4))) == (1, 1)
    assert unmatched(near, seen((0, 0, 10, 10), labels=("b",))) == (1, 1)


def test_a_box_is_matched_once_and_the_best_pairs_first():
    one = seen((0, 0, 10, 10), (1, 0, 11, 10))
    assert unmatched(one, seen((0, 0, 10, 10))) == (1, 0)
    assert unmatched(one, seen((1, 0, 11, 10), (0, 0, 10, 10))) == (0, 0)


def test_seeing_nothing_contradicts_seeing_something_and_not_having_looked_contradicts_nothing():
    assert disagree(seen(), seen((0, 0, 1, 1)))
    assert not disagree(seen(), seen())
    assert not disagree(None, seen((0, 0, 1, 1)))
    assert not disagree(seen((0, 0, 1, 1)), None)
