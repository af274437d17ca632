"""Boxes land on the pixels they were found on, and one thing is found once."""

import numpy as np
import pytest
from pydantic import ValidationError

from pipelines.detectors.boxes import fit_picture, keep_best
from pipelines.detectors.kinds import MOST_DETECTIONS, YunetConfig
from pipelines.errors import Rejected


def boxes(*rows):
    return np.array(rows, np.float32).reshape(-1, 4)


def scores(*values):
    return np.array(values, np.float32)


def by_hand(all_boxes, all_scores, iou):
    """Greedy suppression as the definition says it."""
    kept: list[int] = []
    for i in np.argsort(-all_scores, kind="stable"):
        x1, y1, x2, y2 = all_boxes[i].astype(float)
        for j in kept:
            u1, v1, u2, v2 = all_boxes[j].astype(float)
            inter = max(0, min(x2, u2) - max(x1, u1)) * max(0, min(y2, v2) - max(y1, v1))
            union = (x2 - x1) * (y2 - y1) + (u2 - u1) * (v2 - v1) - inter
            if inter / union > iou:
                break
        else:
            kept.append(i)
    return kept


def test_of_two_boxes_on_one_thing_the_better_one_is_kept():
    kept = keep_best(boxes([0, 0, 10, 10], [1, 1, 11, 11], [50, 50, 60, 60]), scores(0.6, 0.9, 0.7), iou=0.3)
    assert kept.tolist() == [1, 2]


def test_boxes_of_different_classes_do_not_suppress_each_other():
    same_place = boxes([0, 0, 10, 10], [0, 0, 10, 10], [0, 0, 10, 10])
    classes = np.array([0, 1, 0], np.uint16)
    assert keep_best(same_place, scores(0.5, 0.9, 0.8), classes, iou=0.3).tolist() == [1, 2]


def test_nothing_in_nothing_out():
    assert keep_best(boxes(), scores(), iou=0.3).tolist() == []


def test_equal_scores_keep_their_order():
    apart = boxes([0, 0, 5, 5], [20, 0, 25, 5], [40, 0, 45, 5])
    assert keep_best(apart, scores(0.5, 0.5, 0.5), iou=0.3).tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("iou", [0.3, 0.5, 0.7])
def test_suppression_is_the_greedy_one_of_the_textbook(seed, iou):
    dice = np.random.default_rng(seed)
    corner = dice.uniform(-20, 100, (200, 2))
    found = np.hstack([corner, corner + dice.uniform(5, 40, (200, 2))]).astype(np.float32)
    marks = dice.uniform(0, 1, 200).astype(np.float32)
    assert keep_best(found, marks, iou=iou).tolist() == by_hand(found, marks, iou)


@pytest.mark.parametrize("fit", ["stretch", "letterbox"])
@pytest.mark.parametrize("shape", [(272, 640), (480, 270), (100, 100), (224, 320)])
def test_a_box_returns_to_the_pixels_it_was_found_on(fit, shape):
    height, width = shape
    picture = np.zeros((height, width, 3), np.uint8)
    x1, y1, x2, y2 = width // 4, height // 4, width // 2, height // 2
    picture[y1:y2, x1:x2] = 255
    fitted = fit_picture(picture, (320, 224), fit)
    assert fitted.picture.shape == (224, 320, 3)
    rows, columns = np.nonzero((fitted.picture == 255).all(axis=2))
    found = boxes([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
    # one input pixel of rounding at each edge
    assert np.abs(fitted.to_source(found)[0] - [x1, y1, x2, y2]).max() <= 1.01 * max(fitted.x, fitted.y, 1)


def test_a_letterbox_keeps_the_shape_of_things_and_pads_with_grey():
    fitted = fit_picture(np.full((100, 200, 3), 255, np.uint8), (64, 64), "letterbox")
    assert fitted.x == fitted.y
    assert (fitted.picture[:32] == 255).all()
    assert (fitted.picture[32:] == 114).all()


def test_boxes_are_cut_at_the_edges_of_the_picture():
    fitted = fit_picture(np.zeros((100, 200, 3), np.uint8), (64, 64), "stretch")
    assert fitted.to_source(boxes([-5, -5, 70, 70])).tolist() == [[0, 0, 200, 100]]


@pytest.mark.parametrize(
    "picture", [np.zeros((5, 5), np.uint8), np.zeros((5, 5, 3), np.float32), np.zeros((0, 5, 3), np.uint8)]
)
def test_what_is_no_bgr_picture_is_rejected(picture):
    with pytest.raises(Rejected, match="uint8"):
        fit_picture(picture, (64, 64), "stretch")


def test_no_more_boxes_are_promised_than_suppression_looks_at():
    apart = np.arange(MOST_DETECTIONS + 5, dtype=np.float32)[:, None] * 10 + np.array(
        [0, 0, 5, 5], np.float32
    )
    kept = keep_best(apart, np.linspace(0.9, 0.1, len(apart), dtype=np.float32), iou=0.5)
    assert kept.tolist() == list(range(MOST_DETECTIONS))
    wanted = {"kind": "yunet", "model": "m.onnx", "input": "192x160"}
    YunetConfig.model_validate(wanted | {"max_detections": MOST_DETECTIONS})
    with pytest.raises(ValidationError, match="less than or equal to 1000"):
        YunetConfig.model_validate(wanted | {"max_detections": MOST_DETECTIONS + 1})
