"""A camera on this machine (USB, CSI or a frame grabber) through Video4Linux."""

from pathlib import Path
from typing import Any, Self

import cv2

from edge.capture.base import Shape
from edge.capture.video import VideoSource
from pipelines.errors import Retryable

_FOURCC = {"mjpeg": "MJPG", "yuyv": "YUYV"}
# The driver keeps as few pictures as it can: a picture that waited in the kernel is old.
_BUFFERS = 1


class UsbSource(VideoSource):
    """`device`: N of /dev/videoN or a path; `size`, `fps` and `pixels` are wishes, the driver gives its nearest."""

    def __init__(
        self,
        *,
        device: int | str,
        size: tuple[int, int] | None = None,
        fps: float | None = None,
        pixels: str | None = None,
    ) -> None:
        self._path = Path(f"/dev/video{device}") if isinstance(device, int) else Path(device)
        self._size = size
        self._fps = fps
        self._pixels = pixels

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(device=config.device, size=config.size, fps=config.fps, pixels=config.pixels)

    def open(self) -> Shape:
        """Raises Retryable when the device is not there, not ours to open, or gives no pictures."""
        self.close()
        try:
            with self._path.open("rb"):
                pass
        except FileNotFoundError:
            there = ", ".join(sorted(str(p) for p in Path("/dev").glob("video*"))) or "none"
            raise Retryable(f"there is no {self._path}; plug the camera in (cameras here: {there})") from None
        except PermissionError:
            raise Retryable(
                f"{self._path} may not be opened by this user; add the user to the group `video`"
            ) from None
        except OSError as error:
            raise Retryable(f"cannot open {self._path}: {error.strerror or error}") from None
        video = cv2.VideoCapture(str(self._path), cv2.CAP_V4L2)
        if not video.isOpened():
            video.release()
            raise Retryable(
                f"{self._path} gives no pictures; another program may be using it, or it is no camera"
            )
        for setting, value in self._wishes():
            video.set(setting, value)  # a driver that cannot says so by what it gives
        return self._take(video)

    @property
    def pts_us(self) -> int | None:
        """The driver's stamp."""
        if self._video is None:
            return None
        stamp_us = round(self._video.get(cv2.CAP_PROP_POS_MSEC) * 1000)
        return stamp_us if stamp_us > 0 else None

    def _wishes(self) -> list[tuple[int, float]]:
        wishes: list[tuple[int, float]] = []
        if self._pixels is not None:  # before the size: it decides which sizes there are
            wishes.append((cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*_FOURCC[self._pixels])))
        if self._size is not None:
            wishes += [(cv2.CAP_PROP_FRAME_WIDTH, self._size[0]), (cv2.CAP_PROP_FRAME_HEIGHT, self._size[1])]
        if self._fps is not None:
            wishes.append((cv2.CAP_PROP_FPS, self._fps))
        return [*wishes, (cv2.CAP_PROP_BUFFERSIZE, _BUFFERS)]
