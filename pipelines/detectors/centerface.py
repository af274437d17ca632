"""CenterFace: faces as the peaks of a heat map (Xu et al., "CenterFace: Joint Face Detection and Alignment
Using Face as Point", 2019).

Input `input.1` float32 [1, 3, H, W], RGB 0..255, H and W multiples of 32. Outputs at stride 4: `537` score,
`538` log of height and width in strides, `539` offset y and x of the centre, `540` landmarks (unused).
"""

from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np

from pipelines.detectors.base import CancelToken
from pipelines.detectors.boxes import Fit, fit_picture, keep_best
from pipelines.detectors.onnx import OnnxModel, Tensor
from pipelines.errors import ConfigError
from pipelines.frame import Picture
from pipelines.result import Detections

_INPUT = "input.1"
_OUTPUTS = ("537", "538", "539")
_STRIDE_PX = 4
_MULTIPLE_PX = 32
_LARGEST_LOG = 10.0  # exp of it is far beyond any picture; keeps a broken model from overflowing


class CenterFace:
    """Faces above `min_score`, overlapping ones (intersection over union above `iou`) suppressed.

    Raises ConfigError for a file that is not this model and for an `input_size` (width_px, height_px) that
    is no multiple of 32.
    """

    def __init__(
        self,
        *,
        model: Path,
        input_size: tuple[int, int],
        sha256: str | None = None,
        min_score: float = 0.5,
        iou: float = 0.3,
        threads: int = 1,
        fit: Fit = "stretch",
    ) -> None:
        width, height = input_size
        if width <= 0 or height <= 0 or width % _MULTIPLE_PX or height % _MULTIPLE_PX:
            raise ConfigError(f"centerface: input {width}x{height}: both sides must be multiples of 32")
        self._input_size = input_size
        self._min_score = min_score
        self._iou = iou
        self._fit: Fit = fit
        self._model = OnnxModel(model, sha256=sha256, threads=threads)
        missing = [n for n in _OUTPUTS if n not in self._model.outputs]
        if self._model.inputs != (_INPUT,) or missing:
            raise ConfigError(
                f"{model} is no CenterFace model: inputs {list(self._model.inputs)}, "
                f"outputs {list(self._model.outputs)}; needed: input {_INPUT}, outputs {list(_OUTPUTS)}"
            )

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(
            model=Path(config.model),
            input_size=config.input,
            sha256=config.sha256,
            min_score=config.min_score,
            iou=config.iou,
            threads=config.threads,
            fit=config.fit,
        )

    @property
    def name(self) -> str:
        return f"centerface@{self._input_size[0]}x{self._input_size[1]}"

    @property
    def labels(self) -> tuple[str, ...]:
        return ("face",)

    @property
    def input_size(self) -> tuple[int, int]:
        return self._input_size

    @property
    def sha256(self) -> str:
        return self._model.sha256

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        """Faces in pixels of `picture`, best score first. Raises as `Detector.detect` says."""
        fitted = fit_picture(picture, self._input_size, self._fit)
        pixels = np.asarray(cv2.dnn.blobFromImage(fitted.picture, swapRB=True), np.float32)
        heat, scale, offset = self._model.run({_INPUT: pixels}, _OUTPUTS, cancel)
        found = decode(heat, scale, offset, min_score=self._min_score, iou=self._iou)
        return Detections(fitted.to_source(found.boxes), found.scores, found.class_ids, self.labels)


def decode(heat: Tensor, scale: Tensor, offset: Tensor, *, min_score: float, iou: float) -> Detections:
    """Faces in input pixels. `heat` [1, 1, h, w], `scale` and `offset` [1, 2, h, w] (first y, then x).

    centre = (cell + offset + 0.5) · 4, side = exp(scale) · 4.
    """
    rows, columns = np.nonzero(heat[0, 0] > min_score)
    scores = heat[0, 0, rows, columns]
    sides = np.exp(np.minimum(scale[0][:, rows, columns], _LARGEST_LOG)) * _STRIDE_PX
    centres = (np.stack([rows, columns]) + offset[0][:, rows, columns] + 0.5) * _STRIDE_PX
    top, left = centres - sides / 2
    bottom, right = centres + sides / 2
    boxes = np.stack([left, top, right, bottom], axis=1).astype(np.float32)
    kept = keep_best(boxes, scores, iou=iou)
    return Detections(boxes[kept], scores[kept].astype(np.float32), np.zeros(len(kept), np.uint16), ("face",))
