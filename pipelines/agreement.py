"""Whether two models saw the same: boxes of one label that overlap by at least half are the same thing.

Each box is matched at most once, the largest overlaps first; of equal ones the first in order. Overlap is intersection
over union (PASCAL VOC, 2010).
"""

import numpy as np
from numpy.typing import NDArray

from pipelines.result import Detections

SAME_IOU = 0.5


def disagree(one: Detections | None, other: Detections | None) -> bool:
    """Whether either has a box the other lacks. False when one is missing: nobody ran, so nobody contradicts."""
    return one is not None and other is not None and unmatched(one, other) != (0, 0)


def unmatched(one: Detections, other: Detections) -> tuple[int, int]:
    """How many boxes of each have no partner in the other."""
    overlap = overlaps(one.boxes, other.boxes)
    # As numbers: a thousand boxes each are a million pairs, and words are slow to compare.
    labels = np.unique(np.concatenate([_labels(one), _labels(other)]), return_inverse=True)[1]
    same = (overlap >= SAME_IOU) & (labels[: len(one), None] == labels[None, len(one) :])
    rows, columns = np.nonzero(same)
    order = np.argsort(-overlap[rows, columns], kind="stable")
    free_rows, free_columns = [True] * len(one), [True] * len(other)
    pairs = 0
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if free_rows[row] and free_columns[column]:
            free_rows[row] = free_columns[column] = False
            pairs += 1
    return len(one) - pairs, len(other) - pairs


def overlaps(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Intersection over union of [N, 4] and [M, 4] boxes, x1 y1 x2 y2, as [N, M]; 0 where a box has no area."""
    shared = _shared(one, other, 0) * _shared(one, other, 1)
    joined = _areas(one)[:, None] + _areas(other)[None, :] - shared
    share: NDArray[np.float32] = np.divide(shared, joined, out=np.zeros_like(shared), where=joined > 0)
    return share


def _shared(one: NDArray[np.float32], other: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    """What intervals share along x (0) or y (1)."""
    low = np.maximum(one[:, None, axis], other[None, :, axis])
    high = np.minimum(one[:, None, axis + 2], other[None, :, axis + 2])
    length: NDArray[np.float32] = np.maximum(high - low, 0)
    return length


def _areas(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    sides: NDArray[np.float32] = np.clip(boxes[:, 2:] - boxes[:, :2], 0, None)
    return sides[:, 0] * sides[:, 1]


def _labels(seen: Detections) -> NDArray[np.str_]:
    names = seen.labels
    return np.array([names[c] if c < len(names) else str(c) for c in seen.class_ids.tolist()], np.str_)
