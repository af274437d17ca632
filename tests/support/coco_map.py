"""COCO's box metric, exact and small: average precision over IoU .50:.05:.95, 101 recall points, 100 boxes per
picture, all areas, no crowds. Means are over the classes that occur in the truth, in percent.

Matching is COCO's: per picture and class, detections in falling score each take the free truth of highest IoU at
or above the threshold; precision is made monotone from the right and read at recalls 0, .01, … 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.result import Detections

THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
MOST_PER_PICTURE = 100


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """`boxes` [N, 4] x1 y1 x2 y2 in pixels, `class_ids` [N]."""

    boxes: NDArray[np.float64]
    class_ids: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Score:
    """Percent."""

    map: float
    ap50: float


def evaluate(truths: Sequence[Truth], found: Sequence[Detections]) -> Score:
    """The metric over pictures; `truths[i]` and `found[i]` are of one picture."""
    classes = np.unique(np.concatenate([t.class_ids for t in truths]))
    per_class = np.array([_of_class(int(c), truths, found) for c in classes])
    means = per_class.mean(axis=0) * 100
    return Score(float(means.mean()), float(means[0]))


def _of_class(class_id: int, truths: Sequence[Truth], found: Sequence[Detections]) -> NDArray[np.float64]:
    """Average precision at each threshold."""
    total = 0
    scores: list[NDArray[np.float64]] = []
    hits: list[NDArray[np.bool_]] = []
    for truth, seen in zip(truths, found, strict=True):
        wanted = truth.boxes[truth.class_ids == class_id]
        total += len(wanted)
        # COCO keeps the best hundred of each class
        mine = np.flatnonzero(seen.class_ids == class_id)
        mine = mine[np.argsort(-seen.scores[mine], kind="stable")][:MOST_PER_PICTURE]
        scores.append(seen.scores[mine].astype(float))
        hits.append(_hits(wanted, seen.boxes[mine].astype(float)))
    order = np.argsort(-np.concatenate(scores), kind="stable")
    hit = np.concatenate(hits, axis=1)[:, order]
    return np.array([_average_precision(row, total) for row in hit])


def _hits(wanted: NDArray[np.float64], boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[thresholds, boxes]: whether each box, best score first, takes a truth."""
    hit = np.zeros((len(THRESHOLDS), len(boxes)), bool)
    if not len(wanted):
        return hit
    overlap = iou(boxes, wanted)
    for t, threshold in enumerate(THRESHOLDS):
        free = np.ones(len(wanted), bool)
        for b in range(len(boxes)):
            left = np.where(free, overlap[b], -1)
            best = int(left.argmax())
            if left[best] >= threshold - 1e-10:
                free[best] = False
                hit[t, b] = True
    return hit


def _average_precision(hit: NDArray[np.bool_], total: int) -> float:
    true, count = np.cumsum(hit), np.arange(1, len(hit) + 1)
    recall, precision = true / total, true / count
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(recall, RECALLS, side="left")
    return float(np.append(precision, 0.0)[np.minimum(at, len(precision))].mean())


def iou(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """[len(a), len(b)]: intersection over union."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = np.prod(np.maximum(high - low, 0), axis=2)
    areas = [np.prod(x[:, 2:] - x[:, :2], axis=1) for x in (a, b)]
    return np.asarray(inter / (areas[0][:, None] + areas[1][None, :] - inter))
