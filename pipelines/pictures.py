"""The one place where a picture becomes what detectors see: uint8 BGR [height, width, 3], near and far alike.

8 bits stay as they are, gray becomes three equal channels. 16 bits are stretched, each picture by itself, so that
its 1st percentile is black and its 99th white: a thermal or depth picture uses a few hundred of 65 536 steps, and
a single hot or missing pixel must not decide the contrast.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import Rejected
from pipelines.frame import Picture

LOW_PERCENT, HIGH_PERCENT = 1, 99
_SAMPLES = 65_536  # percentiles of this many pixels, evenly spread, are good to a fraction of a gray step


def for_detector(picture: Picture) -> NDArray[np.uint8]:
    """`picture` as uint8 BGR [height, width, 3]; the same array when it is that already.

    Raises Rejected for anything that is no picture.
    """
    if picture.dtype == np.uint16:
        black, white = contrast(picture)
        picture = stretched(picture, black=black, white=white)
    if picture.dtype != np.uint8 or not picture.size:
        raise Rejected(
            f"a detector takes uint8 or uint16 pictures, not {picture.dtype} {list(picture.shape)}"
        )
    if picture.ndim == 2:
        return cv2.cvtColor(picture, cv2.COLOR_GRAY2BGR).astype(np.uint8, copy=False)
    if picture.ndim != 3 or picture.shape[2] != 3:
        raise Rejected(f"a detector takes [height, width] or [height, width, 3], not {list(picture.shape)}")
    return picture.astype(np.uint8, copy=False)


def contrast(picture: Picture) -> tuple[int, int]:
    """(black, white): the 1st and the 99th percentile of all channels together; of a flat picture, its value and
    the next one."""
    step = max(1, round((picture.shape[0] * picture.shape[1] / _SAMPLES) ** 0.5))
    low, high = np.percentile(picture[::step, ::step], (LOW_PERCENT, HIGH_PERCENT))
    return int(low), max(int(low) + 1, int(np.ceil(high)))


def stretched(picture: Picture, *, black: int, white: int) -> NDArray[np.uint8]:
    """uint8 of the same shape: `black` and below are 0, `white` and above 255, linear between."""
    steps = (np.arange(65_536, dtype=np.float32) - black) * (255 / (white - black))
    table = np.clip(np.rint(steps), 0, 255).astype(np.uint8)
    return np.take(table, picture)
