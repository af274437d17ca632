"""Boxes against boxes: what one model found of what a better one sees, counted at an overlap.

The matching of PASCAL VOC and COCO: class by class, each found box, best score first, takes the free reference box
it overlaps most, if by at least `iou`. Whether two models agree, with no best one, is `pipelines.agreement`.
"""

import numpy as np
from numpy.typing import NDArray

from pipelines.agreement import SAME_IOU, overlaps
from pipelines.result import Detections

Boxes = NDArray[np.float32]


def counts(found: Detections, reference: Detections, *, iou: float = SAME_IOU) -> tuple[int, int]:
    """(true, false) positives over all classes; class ids of both are indexes into one list of labels."""
    true = 0
    for label in np.unique(found.class_ids):
        of_found = found.class_ids == label
        order = np.argsort(-found.scores[of_found], kind="stable")
        true += matched(found.boxes[of_found][order], reference.boxes[reference.class_ids == label], iou=iou)
    return true, len(found) - true


def matched(found: Boxes, reference: Boxes, *, iou: float = SAME_IOU) -> int:
    """How many of `found`, best first, are one of `reference` each; [N, 4] boxes of one class, x1 y1 x2 y2."""
    if not len(found) or not len(reference):
        return 0
    overlap = overlaps(found, reference)
    true = 0
    for row in overlap:
        best = int(row.argmax())
        if row[best] >= iou:
            overlap[:, best] = -1  # taken; `row` is a view of it
            true += 1
    return true
