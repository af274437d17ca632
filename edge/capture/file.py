"""A video file as a source: decoded picture by picture, again from the start when it loops."""

import math
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np

from edge.capture.base import Shape
from pipelines.errors import ConfigError, Fatal
from pipelines.frame import Picture

# One decoder thread: frame-parallel decoding would take the cores from detector and codec in bursts.
_SETTINGS = [cv2.CAP_PROP_N_THREADS, 1]


class FileSource:
    """Pictures of the file at `path`; `fps` overrides the rate the file names; `loop`: never ends."""

    def __init__(self, *, path: Path, loop: bool = False, fps: float | None = None) -> None:
        self._path = path
        self._loop = loop
        self._fps = fps
        self._video: cv2.VideoCapture | None = None
        self._read_since_start = 0

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(path=Path(config.path), loop=config.loop, fps=config.fps)

    def open(self) -> Shape:
        """Raises ConfigError when the file is missing, no video, or names no frame rate and none was given."""
        if not self._path.is_file():
            what = (
                "it is a folder; for pictures use kind: images"
                if self._path.is_dir()
                else "there is no such file"
            )
            raise ConfigError(f"cannot read {self._path}: {what}")
        video = self._start()
        width = int(video.get(cv2.CAP_PROP_FRAME_WIDTH))
        height = int(video.get(cv2.CAP_PROP_FRAME_HEIGHT))
        fps = self._fps if self._fps is not None else float(video.get(cv2.CAP_PROP_FPS))
        if not math.isfinite(fps) or fps <= 0:
            self.close()
            raise ConfigError(f"{self._path} names no usable frame rate ({fps}); set fps on the source")
        return Shape(width_px=width, height_px=height, fps=fps)

    def read(self) -> Picture | None:
        if self._video is None:
            raise Fatal(f"{self._path} was read before it was opened")
        picture = self._next(self._video)
        if picture is not None or not self._loop:
            return picture
        if not self._read_since_start:
            raise Fatal(f"{self._path} holds no picture that can be decoded")
        # Opened anew rather than sought: exact for every container, and the decoder starts clean.
        return self._next(self._start())

    def close(self) -> None:
        if self._video is not None:
            self._video.release()
            self._video = None

    def _start(self) -> cv2.VideoCapture:
        self.close()
        video = cv2.VideoCapture(str(self._path), cv2.CAP_FFMPEG, _SETTINGS)
        if not video.isOpened():
            video.release()
            raise ConfigError(
                f"cannot decode {self._path}: it is no video this build of OpenCV can read; H.264 in MP4 is one"
            )
        self._video = video
        self._read_since_start = 0
        return video

    def _next(self, video: cv2.VideoCapture) -> Picture | None:
        try:
            there, picture = video.read()
        except cv2.error as error:
            raise Fatal(f"decoding {self._path} failed: {error}") from error
        if not there:
            return None
        self._read_since_start += 1
        return picture.astype(np.uint8, copy=False)
