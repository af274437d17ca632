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


def one_by_one(one: Detections, other: Detections) -> tuple[int, int]:
    """The definition, as slow as it reads."""
    overlap = overlaps(one.boxes, other.boxes)
    overlap[one.class_ids[:, None] != other.class_ids[None, :]] = 0
    pairs = 0
    while overlap.max(initial=0) >= 0.5:
        row, column = np.unravel_index(overlap.argmax(), overlap.shape)
        overlap[row, :] = overlap[:, column] = 0
        pairs += 1
    return len(one) - pairs, len(other) - pairs


def crowd(seed: int, count: int, *, side: float) -> Detections:
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, side, (count, 2)).round()
    boxes = np.concatenate([corners, corners + rng.integers(20, 40, (count, 2))], axis=1)
    return seen(*boxes.tolist(), labels=("a", "b"), ids=rng.integers(0, 2, count).tolist())


@pytest.mark.parametrize("seed", range(20))
def test_pairs_are_those_of_the_definition(seed: int):
    one, other = crowd(seed, 60, side=120), crowd(seed + 100, 50, side=120)
    assert unmatched(one, other) == one_by_one(one, other)


def test_a_crowd_is_paired_without_looking_at_every_pair_again_for_every_box(monkeypatch):
    one, other = crowd(1, 1000, side=2000), crowd(2, 1000, side=2000)
    calls = []
    nonzero = np.nonzero

    def counting(array):
        calls.append(array.shape)
        return nonzero(array)

    monkeypatch.setattr(np, "nonzero", counting)
    unmatched(one, one)
    unmatched(one, other)
    assert calls == [(1000, 1000)] * 2, "the whole matrix once for each"
