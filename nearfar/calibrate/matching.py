"""Boxes against boxes: what one model found of what a better one sees, counted at an overlap.

The matching of PASCAL VOC and COCO: class by class, each found box, best score first, takes the free reference box
it overlaps most, if by at least `iou`.
"""

import numpy as np
from numpy.typing import NDArray

from pipelines.result import Detections

IOU = 0.5
Boxes = NDArray[np.float32]


def counts(found: Detections, reference: Detections, *, iou: float = IOU) -> tuple[int, int]:
    """(true, false) positives over all classes; class ids of both are indexes into one list of labels."""
    true = 0
    for label in np.unique(found.class_ids):
        of_found = found.class_ids == label
        order = np.argsort(-found.scores[of_found], kind="stable")
        true += matched(found.boxes[of_found][order], reference.boxes[reference.class_ids == label], iou=iou)
    return true, len(found) - true


def matched(found: Boxes, reference: Boxes, *, iou: float = IOU) -> int:
    """How many of `found`, best first, are one of `reference` each; [N, 4] boxes of one class, x1 y1 x2 y2."""
    free = np.ones(len(reference), np.bool_)
    areas = _areas(reference)
    true = 0
    for box in found:
        if not free.any():
            break
        across = np.minimum(box[2], reference[:, 2]) - np.maximum(box[0], reference[:, 0])
        down = np.minimum(box[3], reference[:, 3]) - np.maximum(box[1], reference[:, 1])
        shared = np.maximum(across, 0) * np.maximum(down, 0)
        union = (box[2] - box[0]) * (box[3] - box[1]) + areas - shared
        overlap = np.divide(shared, union, out=np.zeros_like(shared), where=free & (union > 0))
        best = int(overlap.argmax())
        if overlap[best] >= iou:
            free[best] = False
            true += 1
    return true


def _areas(boxes: Boxes) -> Boxes:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
