"""A folder of pictures as a source, in the order a person would list them: 2.png before 10.png.

Each picture keeps the size and depth its file has; only an alpha channel is dropped.
"""

import re
from pathlib import Path
from typing import Any, Self, cast

import cv2
import numpy as np

from edge.capture.base import Shape
from pipelines.errors import ConfigError, Fatal
from pipelines.frame import Picture

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
_DIGITS = re.compile(r"(\d+)")
_DEPTHS = (np.uint8, np.uint16)


def natural(path: Path) -> list[tuple[int, str]]:
    """A sort key in which numbers count as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part.casefold()) for part in _DIGITS.split(path.name)]


class ImagesSource:
    """Pictures of the folder `path`, `fps` of them a second; `loop`: never ends."""

    def __init__(self, *, path: Path, fps: float, loop: bool = False) -> None:
        self._path = path
        self._fps = fps
        self._loop = loop
        self._files: list[Path] | None = None
        self._next = 0

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(path=Path(config.path), fps=config.fps, loop=config.loop)

    def open(self) -> Shape:
        """The shape is that of the first picture. Raises ConfigError when the folder or its first picture cannot
        be read."""
        try:
            files = [p for p in self._path.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file()]
        except NotADirectoryError:
            raise ConfigError(f"{self._path} is a file, not a folder; for a video use kind: file") from None
        except OSError as error:
            raise ConfigError(f"cannot read the folder {self._path}: {error.strerror or error}") from None
        if not files:
            raise ConfigError(
                f"{self._path} holds no picture ({', '.join(SUFFIXES)}); name the folder they lie in"
            )
        self._files = sorted(files, key=natural)
        self._next = 0
        try:
            height, width = self._load(self._files[0]).shape[:2]
        except Fatal as error:
            self._files = None
            raise ConfigError(str(error)) from error
        return Shape(width_px=width, height_px=height, fps=self._fps)

    def read(self) -> Picture | None:
        """uint8 or uint16, [h, w] for one channel, [h, w, 3] in BGR for colour."""
        if self._files is None:
            raise Fatal(f"{self._path} was read before it was opened")
        if self._next == len(self._files):
            if not self._loop:
                return None
            self._next = 0
        picture = self._load(self._files[self._next])
        self._next += 1
        return picture

    def close(self) -> None:
        self._files = None

    @staticmethod
    def _load(path: Path) -> Picture:
        try:
            # Through bytes, so that a name in any encoding is read, and a missing file is told from a broken one.
            data = np.fromfile(path, np.uint8)
            picture = cv2.imdecode(data, cv2.IMREAD_UNCHANGED) if data.size else None
        except OSError as error:
            raise Fatal(f"cannot read {path}: {error.strerror or error}") from error
        except cv2.error as error:
            raise Fatal(f"cannot decode {path}: {error}") from error
        if picture is None:
            raise Fatal(f"cannot decode {path}: it is no picture this build of OpenCV can read; take it away")
        if picture.dtype not in _DEPTHS:
            raise Fatal(f"{path} holds {picture.dtype} pixels; give pictures of 8 or 16 bits a channel")
        pixels = cast("Picture", picture)
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            return pixels[:, :, 0]
        if pixels.ndim == 3 and pixels.shape[2] == 4:
            return np.ascontiguousarray(pixels[:, :, :3])
        return pixels
