"""Whether two models saw the same: boxes of one label that overlap by at least half are the same thing.

Each box is matched at most once, the largest overlaps first. Overlap is intersection over union (PASCAL VOC, 2010).
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
    overlap[_labels(one)[:, None] != _labels(other)[None, :]] = 0
    pairs = 0
    while overlap.size and (best := int(overlap.argmax())) >= 0 and overlap.flat[best] >= SAME_IOU:
        row, column = divmod(best, overlap.shape[1])
        overlap[row, :] = 0
        overlap[:, column] = 0
        pairs += 1
    return len(one) - pairs, len(other) - pairs


def overlaps(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Intersection over union of [N, 4] and [M, 4] boxes, x1 y1 x2 y2, as [N, M]; 0 where a box has no area."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=2)
    joined = _areas(one)[:, None] + _areas(other)[None, :] - shared
    share: NDArray[np.float32] = np.divide(shared, joined, out=np.zeros_like(shared), where=joined > 0)
    return share


def _areas(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    sides: NDArray[np.float32] = np.clip(boxes[:, 2:] - boxes[:, :2], 0, None)
    return sides[:, 0] * sides[:, 1]


def _labels(seen: Detections) -> NDArray[np.str_]:
    names = seen.labels
    return np.array([names[c] if c < len(names) else str(c) for c in seen.class_ids.tolist()], np.str_)
