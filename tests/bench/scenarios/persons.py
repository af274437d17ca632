"""Persons, the one class the scenarios are scored in: which boxes they are, and how many are right at IoU .5."""

import numpy as np

from pipelines.matching import Boxes, matched
from pipelines.result import Detections

LABEL = "person"


def persons(seen: Detections) -> Detections:
    """Persons only, best first."""
    order = np.argsort(-seen.scores, kind="stable")
    order = order[seen.class_ids[order] == seen.labels.index(LABEL)]
    return Detections(seen.boxes[order], seen.scores[order], seen.class_ids[order], seen.labels)


def counts(found: Boxes, reference: Boxes) -> tuple[int, int]:
    """(true, false) positives of boxes [N, 4], best first, against the reference's."""
    true = matched(found, reference)
    return true, len(found) - true
