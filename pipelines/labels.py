"""The label space of a recipe: near and far models speak different classes, an answer speaks the recipe's.

Labels are matched by name, after the recipe's renames. A detection whose class is not in the recipe's space is
dropped, so an answer never carries a class nobody asked for; without a space the detector's own labels pass
unchanged. What a model can never report is said in words before anybody waits for it.

Classes that come out as one label (car and truck as vehicle) may both have seen one thing: it is reported once.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from pipelines.result import Detections

_OUTSIDE = -1
_SAME_THING_IOU = 0.6
_ALIKE = 0.5  # people/person; below it a guess misleads


class LabelMap:
    """From a detector's labels (index = class id) to the recipe's `space` (None: the detector's own).

    `renames`: a detector's label to the one of the space that means the same.
    """

    def __init__(
        self,
        labels: Sequence[str],
        *,
        space: Sequence[str] | None = None,
        renames: Mapping[str, str] | None = None,
    ) -> None:
        self.labels = tuple(labels)
        self.space = self.labels if space is None else tuple(space)
        index = {name: i for i, name in enumerate(self.space)}
        means = renames or {}
        # One entry past the end catches class ids the detector has no label for.
        self._table = np.array(
            [index.get(means.get(name, name), _OUTSIDE) for name in self.labels] + [_OUTSIDE], np.int32
        )
        inside = self._table[self._table != _OUTSIDE]
        self._merges = len(set(inside.tolist())) < len(inside)

    def apply(self, detections: Detections) -> Detections:
        """The same boxes with class ids in the recipe's space; order is kept."""
        ids = self._table[np.minimum(detections.class_ids, len(self.labels))]
        keep = np.flatnonzero(ids != _OUTSIDE)
        if self._merges:
            keep = keep[~_seen_twice(detections.boxes[keep], detections.class_ids[keep], ids[keep])]
        return Detections(
            detections.boxes[keep], detections.scores[keep], ids[keep].astype(np.uint16), self.space
        )


def _seen_twice(
    boxes: NDArray[np.float32], classes: NDArray[np.uint16], ids: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """[N]: whether a better box of another class and the same label lies on the same thing.

    Detectors suppress within a class only; boxes of one class are left as they decided. Only boxes that can be the
    same thing are compared, so the cost follows the overlaps and not the square of the boxes.
    """
    boxes = boxes.astype(np.float64)
    left, right, widths = boxes[:, 0], boxes[:, 2], boxes[:, 2] - boxes[:, 0]
    # Label by label along one line, so that a box never reaches into the next label's.
    along = left + ids * (right.max(initial=0) - left.min(initial=0) + 1)
    order = np.argsort(along, kind="stable")
    along = along[order]
    # An intersection over union above t needs a left edge within (1 − t) of the width of the box that begins first.
    beyond = np.searchsorted(along, along + (1 - _SAME_THING_IOU) * widths[order], side="right")
    counts = np.maximum(beyond - np.arange(len(order)) - 1, 0)
    first = np.repeat(np.arange(len(order)), counts)
    steps = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    one, other = order[first], order[first + 1 + steps]
    alike = (ids[one] == ids[other]) & (classes[one] != classes[other])
    one, other = one[alike], other[alike]
    across = np.minimum(right[one], right[other]) - np.maximum(left[one], left[other])
    down = np.minimum(boxes[one, 3], boxes[other, 3]) - np.maximum(boxes[one, 1], boxes[other, 1])
    shared = np.maximum(across, 0) * np.maximum(down, 0)
    areas = widths * (boxes[:, 3] - boxes[:, 1])
    same = shared > _SAME_THING_IOU * (areas[one] + areas[other] - shared)
    twice = np.zeros(len(ids), np.bool_)
    twice[np.maximum(one, other)[same]] = True  # best score first, so the later row is the lesser
    return twice


class LabelSpace:
    """The labels of a recipe, and the map into them of each model it meets. For one thread."""

    def __init__(self, names: Sequence[str], renames: Mapping[str, str] | None = None) -> None:
        self.names = tuple(names)
        self.renames = dict(renames or {})
        self._maps: dict[tuple[str, ...], LabelMap] = {}

    def apply(self, detections: Detections) -> Detections:
        """`detections` of any model in the recipe's labels."""
        labels = detections.labels
        if labels not in self._maps:
            self._maps[labels] = LabelMap(labels, space=self.names, renames=self.renames)
        return self._maps[labels].apply(detections)

    def unreported(self, labels: Sequence[str]) -> tuple[str, ...]:
        """The recipe's labels that no class of a model with `labels` comes out as."""
        reported = {self.renames.get(label, label) for label in labels}
        return tuple(name for name in self.names if name not in reported)

    def complaints(self, *, who: str, labels: Sequence[str], other: Sequence[str] | None = None) -> list[str]:
        """One sentence per recipe label that `who`, a model with `labels`, never reports, and one per rename that
        is of no use. `other`: the labels of the model beside it; None while they are not known, empty without one."""
        said = []
        if other is not None:
            # until both models are known, a rename may be meant for the other one
            known = tuple(dict.fromkeys((*labels, *other)))
            said += [
                f"label_map: no model says {label}{or_nearest(label, known)}"
                for label in self.renames
                if label not in known
            ]
        nobody = set() if other is None else set(self.unreported(other))
        for name in self.unreported(labels):
            near_it = nearest_label(name, labels)
            advice = (
                f"; if {near_it} means the same, write label_map: {{{near_it}: {name}}}" if near_it else ""
            )
            if name in nobody:
                said.append(f"{name} is never reported: no model here has such a label{advice}")
            else:
                said.append(f"{who} never reports {name}: its model has no such label{advice}")
        return said


def nearest_label(word: str, labels: Sequence[str]) -> str:
    """The label most like `word`, whatever the case; empty when none is."""
    lower = {label.lower(): label for label in reversed(labels)}
    return next((lower[found] for found in get_close_matches(word.lower(), lower, n=1, cutoff=_ALIKE)), "")


def or_nearest(word: str, labels: Sequence[str]) -> str:
    """The end of a sentence about a label that is none of `labels`: the one that may have been meant, if there is one."""
    found = nearest_label(word, labels)
    return f"; did you mean {found}?" if found else ""
