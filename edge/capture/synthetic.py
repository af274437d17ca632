"""A source without a file: a bright square that moves over fixed noise. Equal seeds give equal pictures."""

from typing import Any, Self

import numpy as np

from edge.capture.base import Shape
from pipelines.errors import Fatal
from pipelines.frame import Picture

_STEP_PX = 5


class SyntheticSource:
    """`size` (width_px, height_px) pictures, `count` of them (None: for ever)."""

    def __init__(self, *, size: tuple[int, int], fps: float, count: int | None = None, seed: int = 0) -> None:
        self._size = size
        self._fps = fps
        self._count = count
        self._seed = seed
        self._background: Picture | None = None
        self._given = 0

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(size=config.size, fps=config.fps, count=config.count, seed=config.seed)

    def open(self) -> Shape:
        width, height = self._size
        dice = np.random.default_rng(self._seed)
        # Noise in blocks of 8 px: about as hard to compress as a street scene, unlike noise per pixel.
        blocks = dice.integers(40, 120, (-(-height // 8), -(-width // 8), 3), np.uint8)
        self._background = np.ascontiguousarray(blocks.repeat(8, axis=0).repeat(8, axis=1)[:height, :width])
        self._given = 0
        return Shape(width_px=width, height_px=height, fps=self._fps)

    def read(self) -> Picture | None:
        if self._background is None:
            raise Fatal("the synthetic source was read before it was opened")
        if self._count is not None and self._given >= self._count:
            return None
        width, height = self._size
        side = max(1, min(width, height) // 4)
        left = self._given * _STEP_PX % max(1, width - side)
        top = self._given * _STEP_PX // 2 % max(1, height - side)
        picture = self._background.copy()
        picture[top : top + side, left : left + side] = 230
        self._given += 1
        return picture

    def close(self) -> None:
        self._background = None
