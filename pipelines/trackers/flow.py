"""Boxes of an earlier answer, moved by the optical flow inside them (after Kalal, Mikolajczyk, Matas 2010, MedianFlow).

A grid of points in each box is followed by pyramidal Lucas–Kanade, there and back: a point that does not return to
where it was is lost. A box moves by the median of its points and grows by half of what they do: the other half is
mostly noise. A box with too few points left leaves, and so does one whose centre leaves the picture.

At most two hops lead from an answer to any frame, so the cost does not grow with its age.
"""

from dataclasses import dataclass
from typing import Any, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.frame import Picture
from pipelines.result import Detections
from pipelines.trackers.base import Base, Carried
from pipelines.trackers.small_pictures import Small, SmallPictures, as_pair

DECAY = 0.015
"""Accuracy an answer loses per frame it is carried: F1 of YOLOX fell by .014 to .016 a frame on a 10 fps clip."""
SURE = 0.97
"""Scores are multiplied by it for each frame of age: a little more than precision fell by there."""
MOST_POINTS = 256
SIDES = (4, 3, 2)
"""Points along a side of a box's grid, by how many boxes share MOST_POINTS."""
INSIDE = 0.7
"""Of a box's width and height: its rim is mostly background."""
LEAST_POINTS = 3
LEAST_SHARE = 0.2
RETURNS_WITHIN_PX = 1.0
LONGEST_HOP = 5
MOST_GROWTH = 1.3

_FLOW: dict[str, Any] = {
    "winSize": (11, 11),
    "maxLevel": 3,
    "criteria": (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 10, 0.03),
}
Points = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class _Path:
    """Points of a base where they began and where they are in frame `seq`: [boxes, points, 2] in small pixels.
    `alive` [boxes, points]; `kept` are the boxes that have points at all, as rows of the base."""

    base: Base
    seq: int
    kept: NDArray[np.intp]
    begun: Points
    now: Points
    alive: NDArray[np.bool_]


class FlowTracker:
    """`max_age` in captured frames. Of several answers that could be carried, the one that is worth most by now is:
    a far one outlives a near one by some frames."""

    def __init__(self, *, max_age: int) -> None:
        self._max_age = max_age
        self._pictures = SmallPictures()
        self._bases: dict[int, Base] = {}  # of pictures that are kept, so as bounded as they are
        self._path: _Path | None = None

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(max_age=config.max_age)

    @property
    def held(self) -> int:
        """Small pictures and answers it keeps: what its memory goes by."""
        return len(self._pictures) + len(self._bases)

    def see(self, seq: int, picture: Picture, *, captured_us: int, oldest: int) -> None:
        self._pictures.forget_before(oldest - self._max_age)
        try:
            self._pictures.put(seq, picture, captured_us=captured_us)
        finally:
            for old in [base for base in self._bases if self._pictures.get(base) is None]:
                del self._bases[old]

    def rebase(self, base: Base) -> None:
        known = self._bases.get(base.seq)
        if self._pictures.get(base.seq) is not None and (known is None or known.worth <= base.worth):
            self._bases[base.seq] = base

    def carry(self, seq: int) -> Carried | None:
        target = self._pictures.get(seq)
        base = self._best(seq)
        origin = None if base is None else self._pictures.get(base.seq)
        if target is None or base is None or origin is None:
            return None
        moved = base.detections
        if len(moved):
            path = self._follow(base, origin, seq)
            if path is None:
                return None
            moved = _moved(path, origin, target, age=seq - base.seq)
            if not len(moved):
                return None
        return Carried(
            detections=moved,
            base=base,
            age_frames=seq - base.seq,
            age_us=target.captured_us - origin.captured_us,
        )

    # -- inside -------------------------------------------------------------------------------------------

    def _best(self, seq: int) -> Base | None:
        young = [base for base in self._bases.values() if 0 < seq - base.seq <= self._max_age]
        return max(young, key=lambda base: (base.worth - DECAY * (seq - base.seq), base.seq), default=None)

    def _follow(self, base: Base, origin: Small, seq: int) -> _Path | None:
        path = self._path
        if path is None or path.base is not base or path.seq > seq:
            path = _begin(base, origin)
        while path is not None and path.seq < seq:
            via = self._pictures.between(path.seq, seq) if seq - path.seq > LONGEST_HOP else None
            # The second of two hops may be long: a third would cost more than it finds.
            if path.seq != base.seq:
                via = None
            path = self._hop(path, seq if via is None else via)
        self._path = path
        return path

    def _hop(self, path: _Path, seq: int) -> _Path | None:
        earlier, later = self._pictures.get(path.seq), self._pictures.get(seq)
        pair = None if earlier is None or later is None else as_pair(earlier, later)
        if pair is None:
            return None
        now, alive = path.now.copy(), path.alive.copy()
        points = np.ascontiguousarray(now[alive])
        if len(points):
            there, found = _flow(*pair, points)
            back, returned = _flow(pair[1], pair[0], there)
            good = found & returned & (np.abs(points - back).max(axis=1) <= RETURNS_WITHIN_PX)
            now[alive] = there
            alive[alive] = good
        return _Path(path.base, seq, path.kept, path.begun, now, alive)


def _flow(
    earlier: NDArray[np.uint8], later: NDArray[np.uint8], points: Points
) -> tuple[Points, NDArray[np.bool_]]:
    there, found, _ = cv2.calcOpticalFlowPyrLK(earlier, later, points, None, **_FLOW)  # type: ignore[call-overload]
    return np.asarray(there, np.float32), np.asarray(found).ravel() == 1


def _begin(base: Base, origin: Small) -> _Path:
    """A grid of points in every box; of more boxes than there are points for, the best."""
    boxes = base.detections.boxes * np.array([*origin.scale, *origin.scale], np.float32)
    side = next((n for n in SIDES if n * n * len(boxes) <= MOST_POINTS), SIDES[-1])
    most = MOST_POINTS // side**2
    kept = np.sort(np.argsort(-base.detections.scores, kind="stable")[:most])
    steps = ((np.arange(side, dtype=np.float32) + 0.5) / side - 0.5) * INSIDE + 0.5
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(1, -1, 2)
    corners, sizes = boxes[kept, None, :2], boxes[kept, None, 2:] - boxes[kept, None, :2]
    points = np.ascontiguousarray(corners + sizes * grid, dtype=np.float32)
    height, width = origin.gray.shape
    inside = (points >= 0).all(axis=2) & (points[..., 0] < width) & (points[..., 1] < height)
    return _Path(base, base.seq, kept, points, points, inside)


def _moved(path: _Path, origin: Small, target: Small, *, age: int) -> Detections:
    """The boxes that are still followed, where they are now, in pixels of the source."""
    said, alive = path.base.detections, path.alive
    count = alive.sum(axis=1)
    followed = np.flatnonzero((count >= LEAST_POINTS) & (count >= LEAST_SHARE * alive.shape[1]))
    alive, count = alive[followed], count[followed]
    begun, now = path.begun[followed], path.now[followed]
    shift = _medians(now - begun, alive[..., None], count)
    spread = np.linalg.norm(begun - _medians(begun, alive[..., None], count)[:, None], axis=2)
    spread_now = np.linalg.norm(now - _medians(now, alive[..., None], count)[:, None], axis=2)
    telling = alive & (spread > 1.0)
    told = telling.sum(axis=1)
    growth = _medians((spread_now / np.maximum(spread, 1.0))[..., None], telling[..., None], told)[:, 0]
    growth = np.where(told >= LEAST_POINTS, np.clip((1 + growth) / 2, 1 / MOST_GROWTH, MOST_GROWTH), 1.0)
    rows = path.kept[followed]
    boxes = said.boxes[rows]
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2 + shift / np.array(origin.scale, np.float32)
    halves = (boxes[:, 2:] - boxes[:, :2]) / 2 * growth[:, None]
    size = np.array([target.gray.shape[1] / target.scale[0], target.gray.shape[0] / target.scale[1]])
    seen = ((centres >= 0) & (centres < size)).all(axis=1)
    placed = np.clip(np.concatenate([centres - halves, centres + halves], axis=1), 0, [*size, *size])
    share = count / alive.shape[1]
    scores = said.scores[rows] * SURE**age * (1 + share) / 2
    order = np.argsort(-scores[seen], kind="stable")
    return Detections(
        placed[seen][order].astype(np.float32),
        scores[seen][order].astype(np.float32),
        said.class_ids[rows][seen][order],
        said.labels,
    )


def _medians(values: Points, alive: NDArray[np.bool_], count: NDArray[np.intp]) -> Points:
    """Of `values` [boxes, points, n] over the points that are alive: [boxes, n]; 1 where none is."""
    if not len(values):
        return np.zeros((0, values.shape[2]), np.float32)
    ordered = np.sort(np.where(alive, values, np.float32(np.inf)), axis=1)
    rows = np.arange(len(values))
    low, high = np.maximum(count - 1, 0) // 2, count // 2
    high = np.minimum(np.where(count > 0, high, 0), values.shape[1] - 1)
    middle = (ordered[rows, low] + ordered[rows, high]) / 2
    return np.where((count > 0)[:, None], middle, np.float32(1)).astype(np.float32)
