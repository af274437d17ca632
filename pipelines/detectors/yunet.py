"""YuNet: small faces on small machines (Wu, Peng, Yu, "YuNet: A Tiny Millisecond-level Face Detector", 2023).

One input float32 [N, 3, H, W], BGR 0..255, H and W multiples of 32. Per stride s of 8, 16 and 32 the outputs
`cls_s`, `obj_s` [N, cells, 1], `bbox_s` [N, cells, 4] and `kps_s` (landmarks, unused).
"""

from collections.abc import Sequence

import numpy as np

from pipelines.detectors.boxes import Candidates
from pipelines.detectors.grids import STRIDES_PX, Cells, cells_of
from pipelines.detectors.onnx import Tensor
from pipelines.detectors.onnx_detector import OnnxDetector

_HEADS = {"cls": 1, "obj": 1, "bbox": 4}


class YuNet(OnnxDetector):
    """Faces, as `OnnxDetector` says."""

    kind = "yunet"
    expected = (
        "inputs: one float [N, 3, H, W]; outputs: cls_s and obj_s [N, cells, 1], bbox_s [N, cells, 4] "
        "for s = 8, 16, 32"
    )
    usual_score = 0.6

    def _needed_outputs(self) -> Sequence[str] | None:
        names = {name.lower(): name for name in self._model.outputs}
        needed = [f"{head}_{stride_px}" for head in _HEADS for stride_px in STRIDES_PX]
        return [names[n] for n in needed] if set(needed) <= set(names) else None

    def _reads(self, shapes: dict[str, tuple[int, ...]]) -> bool:
        width, height = self._input_size
        expected = [
            (1, (width // stride_px) * (height // stride_px), columns)
            for columns in _HEADS.values()
            for stride_px in STRIDES_PX
        ]
        return list(shapes.values()) == expected

    def _settle(self, _seen: list[Tensor], /) -> tuple[str, ...]:
        self._cells = cells_of(self._input_size)
        return ("face",)

    def _decode(self, outputs: list[Tensor]) -> Candidates:
        count = len(STRIDES_PX)
        classes, objects, boxes = (
            np.concatenate([part[0] for part in outputs[i : i + count]]) for i in range(0, 3 * count, count)
        )
        return decode(
            classes=classes[:, 0],
            objects=objects[:, 0],
            boxes=boxes,
            cells=self._cells,
            min_score=self._min_score,
        )


def decode(*, classes: Tensor, objects: Tensor, boxes: Tensor, cells: Cells, min_score: float) -> Candidates:
    """Faces in input pixels. `classes` and `objects` [A] within 0 and 1, `boxes` [A, 4] as `Cells.boxes` takes.

    score = √(class · objectness).
    """
    scores = np.sqrt(np.clip(classes, 0, 1) * np.clip(objects, 0, 1))
    at = np.flatnonzero(scores >= min_score)
    return Candidates(cells.boxes(at, boxes[at]), scores[at])
