"""Boxes are counted once, best first, and class by class."""

import numpy as np

from pipelines.matching import counts
from pipelines.result import Detections


def seen(
    *boxes: tuple[float, float, float, float], classes: tuple[int, ...] = (), scores: tuple[float, ...] = ()
) -> Detections:
    count = len(boxes)
    return Detections(
        np.array(boxes, np.float32).reshape(count, 4),
        np.array(scores or np.linspace(0.9, 0.5, count), np.float32),
        np.array(classes or [0] * count, np.uint16),
    )


def test_each_reference_box_is_found_once_by_the_best_box_that_overlaps_it():
    reference = seen((0, 0, 10, 10), (20, 0, 30, 10))
    found = seen((0, 0, 10, 9), (1, 0, 11, 10), (40, 0, 50, 10), (20, 0, 30, 8))
    assert counts(found, reference) == (2, 2)


def test_nothing_found_and_nothing_there_are_no_hits():
    some, none = seen((0, 0, 10, 10)), seen()
    assert counts(none, some) == (0, 0)
    assert counts(some, none) == (0, 1)
    assert counts(none, none) == (0, 0)


def test_the_better_score_takes_the_box_whatever_the_order():
    reference = seen((0, 0, 10, 10), (0, 0, 10, 6))
    # The second is sure and takes what it overlaps most; the first is left with a box it overlaps by 0.6.
    found = seen((0, 0, 10, 10), (0, 0, 10, 10), scores=(0.4, 0.9))
    assert counts(found, reference) == (2, 0)


def test_a_box_of_another_class_is_no_hit():
    assert counts(seen((0, 0, 10, 10), classes=(1,)), seen((0, 0, 10, 10), classes=(0,))) == (0, 1)


def test_half_of_a_box_is_enough_and_less_is_not():
    reference = seen((0, 0, 10, 10))
    assert counts(seen((0, 0, 10, 5)), reference) == (1, 0)
    assert counts(seen((0, 0, 10, 4.9)), reference) == (0, 1)


def test_boxes_without_area_match_nothing():
    flat = seen((5, 5, 5, 5))
    assert counts(flat, flat) == (0, 1)
