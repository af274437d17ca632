"""The cells that anchor-free detectors answer for: grids at strides 8, 16 and 32 over the input, row by row.

Rows of an output follow the cells in this order: stride 8 first, in each grid line by line.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STRIDES_PX = (8, 16, 32)
_LARGEST_LOG = 10.0  # exp of it is far beyond any picture; keeps a broken model from overflowing


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """float32 columns, one row a cell: `corners` [A, 2] x y in strides, `strides_px` [A, 1]."""

    corners: NDArray[np.float32]
    strides_px: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.corners)

    def boxes(self, at: NDArray[np.intp], rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """`rows` [N, 4] of the cells `at` as x1 y1 x2 y2 in input pixels.

        centre = (cell + rows[:, :2]) · stride, side = exp(rows[:, 2:]) · stride.
        """
        strides_px = self.strides_px[at]
        centres = (self.corners[at] + rows[:, :2]) * strides_px
        halves = np.exp(np.minimum(rows[:, 2:], _LARGEST_LOG)) * (strides_px / 2)
        return np.concatenate([centres - halves, centres + halves], axis=1)


def cells_of(size: tuple[int, int]) -> Cells:
    """The cells over `size` (width_px, height_px)."""
    corners, strides = [], []
    for stride_px in STRIDES_PX:
        columns, rows = size[0] // stride_px, size[1] // stride_px
        y, x = np.divmod(np.arange(rows * columns), columns)
        corners.append(np.stack([x, y], axis=1))
        strides.append(np.full((rows * columns, 1), stride_px))
    return Cells(np.concatenate(corners).astype(np.float32), np.concatenate(strides).astype(np.float32))
