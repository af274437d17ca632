"""A short ring of small gray pictures of one stream, by seq: what a tracker looks at.

A picture is reduced once, bilinearly, to at most WIDTH_PX wide: about 0.2 ms, and 77 kB at 4:3. 16-bit pictures
keep their bits; two of them are compared in the contrast of the earlier one, or a change of contrast would look
like a change of the scene.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import Rejected
from pipelines.frame import Picture
from pipelines.pictures import contrast, stretched

WIDTH_PX = 320
MOST = 96
"""A bound for the memory, beyond what a deadline's worth of frames and the greatest age need."""

Gray = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Small:
    """`gray` [height, width] of 8 or 16 bits; `scale` = its pixels per pixel of the source, (x, y)."""

    gray: NDArray[np.uint8 | np.uint16]
    scale: tuple[float, float]
    captured_us: int


class SmallPictures:
    def __init__(self) -> None:
        self._kept: dict[int, Small] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[int]:
        return iter(self._kept)

    def put(self, seq: int, picture: Picture, *, captured_us: int) -> None:
        """`seq` rises from call to call. Raises Rejected for what is no picture in gray or BGR."""
        height, width = picture.shape[:2]
        try:
            size = (min(width, WIDTH_PX), max(1, round(height * min(1.0, WIDTH_PX / width))))
            small = cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR)
            if small.ndim == 3:
                small = cv2.cvtColor(small, cv2.COLOR_BGR2GRAY)
        except (cv2.error, ZeroDivisionError) as error:
            raise Rejected(
                f"a picture of shape {picture.shape} and {picture.dtype} cannot be tracked: it is neither gray nor BGR"
            ) from error
        gray: NDArray[Any] = np.asarray(small, picture.dtype)
        self._kept[seq] = Small(gray, (size[0] / width, size[1] / height), captured_us)
        if len(self._kept) > MOST:
            del self._kept[next(iter(self._kept))]

    def get(self, seq: int) -> Small | None:
        return self._kept.get(seq)

    def forget_before(self, seq: int) -> None:
        for old in [kept for kept in self._kept if kept < seq]:
            del self._kept[old]

    def between(self, first: int, last: int) -> int | None:
        """The kept picture nearest to the middle of `first` and `last`, neither of them; None without one."""
        inside = [seq for seq in self._kept if first < seq < last]
        return min(inside, key=lambda seq: abs(2 * seq - first - last), default=None)


def as_pair(earlier: Small, later: Small) -> tuple[Gray, Gray] | None:
    """Both as 8 bits in one contrast; None when they are not of one size and depth."""
    one, other = earlier.gray, later.gray
    if one.shape != other.shape or one.dtype != other.dtype:
        return None
    if one.dtype == np.uint16:
        black, white = contrast(one)
        return stretched(one, black=black, white=white), stretched(other, black=black, white=white)
    return one.astype(np.uint8, copy=False), other.astype(np.uint8, copy=False)
