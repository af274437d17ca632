"""The label space of a recipe: near and far models speak different classes, an answer speaks the recipe's.

Labels are matched by name. A detection whose class is not in the recipe's space is dropped, so an answer
never carries a class nobody asked for; without a space the detector's own labels pass unchanged.
"""

from collections.abc import Sequence

import numpy as np

from pipelines.result import Detections

_OUTSIDE = -1


class LabelMap:
    """From a detector's labels (index = class id) to the recipe's `space` (None: the detector's own)."""

    def __init__(self, labels: Sequence[str], space: Sequence[str] | None = None) -> None:
        self.labels = tuple(labels)
        self.space = self.labels if space is None else tuple(space)
        index = {name: i for i, name in enumerate(self.space)}
        # One entry past the end catches class ids the detector has no label for.
        self._table = np.array([index.get(name, _OUTSIDE) for name in self.labels] + [_OUTSIDE], np.int32)

    def apply(self, detections: Detections) -> Detections:
        """The same boxes with class ids in the recipe's space; order is kept."""
        ids = self._table[np.minimum(detections.class_ids, len(self.labels))]
        keep = ids != _OUTSIDE
        return Detections(
            detections.boxes[keep], detections.scores[keep], ids[keep].astype(np.uint16), self.space
        )
