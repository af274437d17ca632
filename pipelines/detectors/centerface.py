"""CenterFace: faces as the peaks of a heat map (Xu et al., "CenterFace: Joint Face Detection and Alignment
Using Face as Point", 2019).

One input float32 [1, 3, H, W], RGB 0..255, H and W multiples of 32. Outputs at stride 4: `537` score,
`538` log of height and width in strides, `539` offset y and x of the centre, `540` landmarks (unused).
"""

from collections.abc import Sequence

import numpy as np

from pipelines.detectors.boxes import Candidates
from pipelines.detectors.onnx import Tensor
from pipelines.detectors.onnx_detector import OnnxDetector

_HEAT, _SCALE, _OFFSET = "537", "538", "539"
_STRIDE_PX = 4
_LARGEST_LOG = 10.0  # exp of it is far beyond any picture; keeps a broken model from overflowing


class CenterFace(OnnxDetector):
    """Faces, as `OnnxDetector` says."""

    kind = "centerface"
    expected = "inputs: one float [N, 3, H, W]; outputs: 537 [N, 1, H/4, W/4], 538 and 539 [N, 2, H/4, W/4]"
    swap_rb = True

    def _needed_outputs(self) -> Sequence[str] | None:
        needed = (_HEAT, _SCALE, _OFFSET)
        return needed if set(needed) <= set(self._model.outputs) else None

    def _reads(self, shapes: dict[str, tuple[int, ...]]) -> bool:
        cells = (self._input_size[1] // _STRIDE_PX, self._input_size[0] // _STRIDE_PX)
        channels = {_HEAT: 1, _SCALE: 2, _OFFSET: 2}
        return all(shapes[name] == (1, count, *cells) for name, count in channels.items())

    def _settle(self, _seen: list[Tensor], /) -> tuple[str, ...]:
        return ("face",)

    def _decode(self, outputs: list[Tensor]) -> Candidates:
        heat, scale, offset = outputs
        return decode(heat=heat, scale=scale, offset=offset, min_score=self._min_score)


def decode(*, heat: Tensor, scale: Tensor, offset: Tensor, min_score: float) -> Candidates:
    """Faces in input pixels. `heat` [1, 1, h, w], `scale` and `offset` [1, 2, h, w] (first y, then x).

    centre = (cell + offset + 0.5) · 4, side = exp(scale) · 4.
    """
    rows, columns = np.nonzero(heat[0, 0] >= min_score)
    scores = heat[0, 0, rows, columns]
    sides = np.exp(np.minimum(scale[0][:, rows, columns], _LARGEST_LOG)) * _STRIDE_PX
    centres = (np.stack([rows, columns]) + offset[0][:, rows, columns] + 0.5) * _STRIDE_PX
    top, left = centres - sides / 2
    bottom, right = centres + sides / 2
    return Candidates(np.stack([left, top, right, bottom], axis=1).astype(np.float32), scores)
