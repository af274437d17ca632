"""What every box detector shares: putting a picture into the model's input and boxes back, and suppression.

All of it is vectorised: one Python loop over boxes would hold up every other thread for milliseconds.
"""

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.detectors.kinds import MOST_DETECTIONS
from pipelines.errors import Rejected
from pipelines.frame import Picture
from pipelines.result import Detections

Fit = Literal["stretch", "letterbox"]
Shrink = Literal["area", "linear"]
"""How pixels are taken when a picture shrinks: averaged, or as detectors trained on bilinear pictures saw them."""
Boxes = NDArray[np.float32]
"""float32 [N, 4]: x1 y1 x2 y2 in pixels."""

_GREY = 114  # the padding YOLO-type detectors are trained with


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What a model's outputs say before suppression: `boxes` in input pixels, `scores` float32 [N], `class_ids`
    uint16 [N] (None: there is one class)."""

    boxes: Boxes
    scores: NDArray[np.float32]
    class_ids: NDArray[np.uint16] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """A picture in the size of a model's input. `x`, `y`: source pixels per input pixel along each axis."""

    picture: Picture
    x: float
    y: float
    source_width_px: int
    source_height_px: int

    def to_source(self, boxes: Boxes) -> Boxes:
        """Boxes in input pixels as boxes in source pixels, cut at the picture's edges."""
        scaled = boxes * np.array([self.x, self.y, self.x, self.y], np.float32)
        width, height = self.source_width_px, self.source_height_px
        limits = np.array([width, height, width, height], np.float32)
        return np.clip(scaled, np.float32(0), limits).astype(np.float32, copy=False)


def fit_picture(picture: Picture, size: tuple[int, int], fit: Fit, *, shrink: Shrink = "area") -> Fitted:
    """`picture` in `size` (width_px, height_px): stretched, or scaled evenly to the top left and padded grey.

    Raises Rejected for anything but uint8 [height, width, 3].
    """
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise Rejected(f"a detector takes uint8 [height, width, 3], not {picture.dtype} {picture.shape}")
    height, width = picture.shape[:2]
    inner = size
    if fit == "letterbox":
        ratio = min(size[0] / width, size[1] / height)
        inner = (max(1, round(width * ratio)), max(1, round(height * ratio)))
    fitted = _resized(picture, inner, shrink)
    if inner != size:
        canvas = np.full((size[1], size[0], 3), _GREY, np.uint8)
        canvas[: inner[1], : inner[0]] = fitted
        fitted = canvas
    return Fitted(
        picture=fitted,
        x=width / inner[0],
        y=height / inner[1],
        source_width_px=width,
        source_height_px=height,
    )


def _resized(picture: Picture, size: tuple[int, int], shrink: Shrink) -> Picture:
    height, width = picture.shape[:2]
    if (width, height) == size:
        return picture
    shrinks = size[0] <= width and size[1] <= height
    way = cv2.INTER_AREA if shrinks and shrink == "area" else cv2.INTER_LINEAR
    return cv2.resize(picture, size, interpolation=way).astype(np.uint8, copy=False)


def keep_best(
    boxes: Boxes,
    scores: NDArray[np.float32],
    class_ids: NDArray[np.uint16] | None = None,
    *,
    iou: float,
) -> NDArray[np.intp]:
    """Indexes of the boxes that survive greedy suppression within their class, best score first.

    Only the best `MOST_DETECTIONS` are looked at.
    A box falls when its intersection over union with a better one is above `iou`; equal scores keep order.
    """
    if not len(scores):
        return np.zeros(0, np.intp)
    best = np.argsort(-scores, kind="stable")[:MOST_DETECTIONS]
    corners = boxes[best].astype(np.float64)
    if class_ids is not None:  # far apart, boxes of different classes never overlap
        reach = corners.max() - min(0.0, corners.min()) + 1.0
        corners = corners + class_ids[best, None].astype(np.float64) * reach
    rectangles = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
    # Descending stand-in scores make OpenCV's order the stable one above.
    ranks = np.linspace(1.0, 0.5, len(best), dtype=np.float32)
    # its annotations ask for lists; arrays are taken as they are, without a Python loop
    kept = cv2.dnn.NMSBoxes(rectangles, ranks, score_threshold=0.0, nms_threshold=iou)  # type: ignore[arg-type]
    return best[np.asarray(kept, np.intp).reshape(-1)]


def place(
    found: Candidates, fitted: Fitted, labels: tuple[str, ...], *, iou: float, max_detections: int
) -> Detections:
    """The best candidates as detections in source pixels, best score first.

    What has no area inside the picture, or is no number, is dropped before it can suppress anything.
    """
    placed = fitted.to_source(found.boxes)
    # comparisons with NaN are false: a broken row of a float16 model falls here too
    sound = np.flatnonzero((placed[:, :2] < placed[:, 2:]).all(axis=1) & np.isfinite(found.boxes).all(axis=1))
    scores = found.scores[sound]
    class_ids = None if found.class_ids is None else found.class_ids[sound]
    kept = sound[keep_best(found.boxes[sound], scores, class_ids, iou=iou)[:max_detections]]
    return Detections(
        placed[kept],
        found.scores[kept].astype(np.float32, copy=False),
        np.zeros(len(kept), np.uint16) if found.class_ids is None else found.class_ids[kept],
        labels,
    )
