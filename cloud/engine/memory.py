"""The memory front and engine share: the front lays pictures into it, the engine looks at them where they lie.

It has no name anywhere: the kernel takes it back when the last of both processes has ended, however it ended. Pages
nobody touched take no memory, so it may be as large as the largest picture. The engine can only read it.
"""

import mmap
import os
from collections.abc import Sequence
from typing import Self

import numpy as np

from cloud.engine.messages import MOST_DIMENSIONS, MalformedMessageError, Placed, is_numbers
from pipelines.errors import ConfigError, Rejected
from pipelines.frame import Picture

_ALIGNED_BYTES = 64


class SharedMemory:
    """`size_bytes` of it. Not thread-safe: one run at a time lies in it."""

    def __init__(self, file: int, size_bytes: int, *, writable: bool) -> None:
        self.size_bytes = size_bytes
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._pages = mmap.mmap(file, size_bytes, flags=mmap.MAP_SHARED, prot=access)

    @classmethod
    def create(cls, size_bytes: int) -> tuple[Self, int]:
        """The memory, and the file descriptor to give to the other process and then to close. Raises ConfigError."""
        if not hasattr(os, "memfd_create"):
            raise ConfigError("processes: engines need Linux; leave processes out")
        file = os.memfd_create("nearfar-pictures", os.MFD_CLOEXEC)
        try:
            os.ftruncate(file, size_bytes)
            return cls(file, size_bytes, writable=True), file
        except BaseException:
            os.close(file)
            raise

    def fits(self, pictures: Sequence[Picture]) -> int:
        """How many of `pictures`, from the first on, lie in it together. Raises Rejected if the first one alone does
        not."""
        end, count = 0, 0
        for picture in pictures:
            end = _aligned(end) + picture.nbytes
            if end > self.size_bytes:
                break
            count += 1
        if not count and pictures:
            raise Rejected(
                f"a picture of {pictures[0].nbytes} bytes does not fit into the {self.size_bytes} bytes shared with "
                "the engine, which limits.pixels sets"
            )
        return count

    def put(self, pictures: Sequence[Picture]) -> list[Placed]:
        """Lay them down, one behind the other. Raises Rejected for what is too large, and for what are no numbers."""
        if self.fits(pictures) < len(pictures):
            raise Rejected(f"{len(pictures)} pictures do not fit together into {self.size_bytes} bytes")
        end, out = 0, []
        for picture in pictures:
            numbers = (
                picture.dtype.newbyteorder("<").str if picture.dtype.byteorder == ">" else picture.dtype.str
            )
            if not is_numbers(numbers) or picture.ndim > MOST_DIMENSIONS:
                raise Rejected(
                    f"a detector takes uint8 [height, width, 3], not {picture.dtype} {picture.shape}"
                )
            place = Placed(numbers, picture.shape, _aligned(end))
            if picture.size:
                np.copyto(self._at(place), picture)
            end = place.offset + picture.nbytes
            out.append(place)
        return out

    def look(self, place: Placed) -> Picture:
        """The picture that lies there; no copy, and read-only for the engine. Raises MalformedMessageError if it cannot
        lie there."""
        if place.offset + place.size_bytes > self.size_bytes:
            raise MalformedMessageError(
                f"a picture of {place.size_bytes} bytes at {place.offset} ends outside of the {self.size_bytes} "
                "bytes that are shared"
            )
        if not place.size_bytes:
            return np.empty(place.shape, place.numbers)
        return self._at(place)

    def close(self) -> None:
        """Pictures that were looked at must be gone."""
        self._pages.close()

    def _at(self, place: Placed) -> Picture:
        return np.ndarray(place.shape, np.dtype(place.numbers), self._pages, place.offset)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNED_BYTES) * _ALIGNED_BYTES
