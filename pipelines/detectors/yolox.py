"""YOLOX (Ge et al., "YOLOX: Exceeding YOLO Series in 2021"), of any size and any set of classes.

One input float32 [N, 3, H, W], BGR 0..255, H and W multiples of 32, scaled evenly to the top left and padded
with 114. One output [N, A, 5 + classes], A = the cells at strides 8, 16 and 32: x, y, w, h, objectness, one
score per class. Exports differ in whether x y w h are pixels already (`decoded`): told from a first run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pipelines.detectors.boxes import Candidates
from pipelines.detectors.coco import COCO_80
from pipelines.detectors.grids import Cells, cells_of
from pipelines.detectors.onnx import Tensor
from pipelines.detectors.onnx_detector import OnnxDetector
from pipelines.errors import ConfigError

_BOX_COLUMNS = 5
_CLEARLY = 4.0  # times nearer to one reading than to the other
_TOLERANCE = 0.01  # float16 models round sigmoids a little past 1


class Yolox(OnnxDetector):
    """Boxes of any class, as `OnnxDetector` says; suppression is within a class.

    `labels`: one per class of the file; None: COCO's 80, for a file of 80 classes. `decoded`: whether the file
    gives boxes in pixels; None: told from a first run. ConfigError where that is not clear, or says otherwise.
    """

    kind = "yolox"
    expected = "inputs: one float [N, 3, H, W]; outputs: one [N, cells at strides 8, 16 and 32, 5 + classes]"
    shrink = "linear"

    def __init__(
        self,
        *,
        model: Path,
        input_size: tuple[int, int],
        sha256: str | None = None,
        labels: Sequence[str] | None = None,
        decoded: bool | None = None,
        min_score: float = 0.35,
        iou: float = 0.45,
        max_detections: int = 300,
        threads: int = 1,
    ) -> None:
        self._wanted_labels = None if labels is None else tuple(labels)
        self._decoded = decoded
        self._cells = cells_of(input_size)
        super().__init__(
            model=model,
            input_size=input_size,
            sha256=sha256,
            min_score=min_score,
            iou=iou,
            max_detections=max_detections,
            threads=threads,
            fit="letterbox",
        )

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(
            model=config.model,
            input_size=config.input,
            sha256=config.sha256,
            labels=config.labels,
            decoded=config.decoded,
            min_score=config.min_score,
            iou=config.iou,
            max_detections=config.max_detections,
            threads=config.threads,
        )

    def _needed_outputs(self) -> Sequence[str] | None:
        return self._model.outputs if len(self._model.outputs) == 1 else None

    def _reads(self, shapes: dict[str, tuple[int, ...]]) -> bool:
        (shape,) = shapes.values()
        return len(shape) == 3 and shape[1] == len(self._cells) and shape[2] > _BOX_COLUMNS

    def _settle(self, seen: list[Tensor], /) -> tuple[str, ...]:
        rows = seen[0][0]
        labels = self._named(rows.shape[1] - _BOX_COLUMNS)
        marks = rows[:, 4:]
        if not ((marks >= -_TOLERANCE) & (marks <= 1 + _TOLERANCE)).all():
            raise ConfigError(
                f"{self._model.path}: objectness and class scores are not within 0 and 1 "
                f"({marks.min():.3g} to {marks.max():.3g}): export it with the sigmoids of the head"
            )
        told = self._tell_decoded(rows)
        if self._decoded is None:
            self._decoded = told
        if self._decoded is None:
            raise ConfigError(
                f"{self._model.path}: it cannot be told at {self._input_size[0]}x{self._input_size[1]} whether its "
                "boxes are in pixels already: write decoded: true if it was exported with decoding, else "
                "decoded: false"
            )
        if told is not None and told != self._decoded:
            raise ConfigError(
                f"{self._model.path}: decoded: {str(self._decoded).lower()} contradicts the file: in a first run its "
                f"boxes are {'in pixels already' if told else 'offsets from their cells'}; leave decoded out"
            )
        return labels

    def _named(self, classes: int) -> tuple[str, ...]:
        labels = self._wanted_labels
        if labels is None and classes == len(COCO_80):
            return COCO_80
        if labels is None:
            raise ConfigError(
                f"{self._model.path} has {classes} classes, so it does not speak COCO's 80: "
                "name them in order with labels: [...]"
            )
        if len(labels) != classes:
            raise ConfigError(
                f"{self._model.path} has {classes} classes and labels: names {len(labels)}: "
                "write exactly one label per class, in the order of training"
                + (", or leave labels out for COCO's 80" if classes == len(COCO_80) else "")
            )
        return labels

    def _tell_decoded(self, rows: Tensor) -> bool | None:
        """Boxes in pixels follow the cells across the picture; boxes still to decode stay around their cell. None: it
        is not clear."""
        cells = self._cells
        as_offsets = float(np.median(np.abs(rows[:, :2] - 0.5)))
        in_cells = rows[:, :2] / cells.strides_px - cells.corners
        as_pixels = float(np.median(np.abs(in_cells - 0.5)))
        if as_pixels * _CLEARLY < as_offsets and (rows[:, 2:4] > 0).all():
            return True
        if as_offsets * _CLEARLY < as_pixels:
            return False
        return None

    def _decode(self, outputs: list[Tensor]) -> Candidates:
        cells = None if self._decoded else self._cells
        return decode(outputs[0][0], cells, min_score=self._min_score)


def decode(rows: Tensor, cells: Cells | None, *, min_score: float) -> Candidates:
    """Boxes in input pixels, each with its best class. `rows` [A, 5 + classes]; `cells` None: decoded already.

    score = objectness · class score.
    """
    # A score is never above its objectness: only rows that can pass are looked at.
    hopeful = np.flatnonzero(rows[:, 4] >= min_score)
    picked = rows[hopeful]
    best = picked[:, _BOX_COLUMNS:].argmax(axis=1)
    scores = picked[:, 4] * picked[np.arange(len(picked)), _BOX_COLUMNS + best]
    good = np.flatnonzero(scores >= min_score)
    boxes = picked[good, :4]
    placed = _corners(boxes) if cells is None else cells.boxes(hopeful[good], boxes)
    return Candidates(placed, np.minimum(scores[good], np.float32(1)), best[good].astype(np.uint16))


def _corners(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """x y w h around the centre as x1 y1 x2 y2."""
    halves = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - halves, boxes[:, :2] + halves], axis=1)
