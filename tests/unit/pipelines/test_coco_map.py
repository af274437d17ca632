"""The accuracy figures rest on this: the metric gives what COCO's definition gives on cases worked out by hand."""

import numpy as np
import pytest

from pipelines.result import Detections
from tests.support.coco_map import Truth, evaluate


def truth(*rows):
    """Rows: class, x1, y1, x2, y2."""
    table = np.array(rows, float).reshape(-1, 5)
    return Truth(table[:, 1:], table[:, 0].astype(np.int64))


def found(*rows):
    """Rows: class, score, x1, y1, x2, y2."""
    table = np.array(rows, np.float32).reshape(-1, 6)
    return Detections(table[:, 2:], table[:, 1], table[:, 0].astype(np.uint16))


def test_the_truth_itself_scores_a_hundred_and_nothing_scores_none():
    here = truth((0, 0, 0, 10, 10), (3, 5, 5, 20, 30))
    assert evaluate([here], [found((0, 0.9, 0, 0, 10, 10), (3, 0.2, 5, 5, 20, 30))]).map == pytest.approx(100)
    assert evaluate([here], [found()]).map == 0


def test_a_box_of_iou_0_7_counts_at_five_thresholds_of_ten():
    score = evaluate([truth((0, 0, 0, 10, 10))], [found((0, 1, 0, 0, 10, 7.05))])
    assert score.map == pytest.approx(50)
    assert score.ap50 == pytest.approx(100)


def test_a_false_alarm_above_the_hit_halves_precision_and_one_below_costs_nothing():
    here = truth((0, 0, 0, 10, 10))
    hit, alarm = (0, 0, 10, 10), (50, 50, 60, 60)
    assert evaluate([here], [found((0, 0.5, *hit), (0, 0.9, *alarm))]).map == pytest.approx(50)
    assert evaluate([here], [found((0, 0.9, *hit), (0, 0.5, *alarm))]).map == pytest.approx(100)


def test_a_second_box_on_one_thing_is_a_false_alarm():
    here = truth((0, 0, 0, 10, 10), (0, 50, 50, 60, 60))
    boxes = found((0, 0.9, 0, 0, 10, 10), (0, 0.8, 0, 0, 10, 10), (0, 0.7, 50, 50, 60, 60))
    # precision 1 up to recall .5 (51 points), then 2/3 (50 points)
    assert evaluate([here], [boxes]).ap50 == pytest.approx(100 * (51 + 50 * 2 / 3) / 101)


def test_classes_weigh_the_same_however_often_they_occur_and_only_those_that_occur():
    here = truth((0, 0, 0, 10, 10), (0, 20, 0, 30, 10), (1, 0, 50, 10, 60))
    boxes = found((0, 0.9, 0, 0, 10, 10), (0, 0.9, 20, 0, 30, 10), (7, 0.9, 0, 50, 10, 60))
    assert evaluate([here], [boxes]).map == pytest.approx(50)


def test_pictures_are_ranked_together_by_score():
    pictures = [truth((0, 0, 0, 10, 10)), truth((0, 0, 0, 10, 10))]
    boxes = [found((0, 0.6, 0, 0, 10, 10)), found((0, 0.7, 50, 50, 60, 60), (0, 0.5, 0, 0, 10, 10))]
    # ranked: alarm, hit, hit: precision 1/2 then 2/3, made monotone: 2/3 everywhere
    assert evaluate(pictures, boxes).ap50 == pytest.approx(100 * 2 / 3)
