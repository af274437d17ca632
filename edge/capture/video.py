"""A camera that OpenCV reads; how it is opened, and what it knows of time, is its kind's."""

import math

import cv2
import numpy as np

from edge.capture.base import Shape
from pipelines.errors import Fatal, Retryable
from pipelines.frame import Picture


class VideoSource:
    """Most of an `edge.capture.base.LiveSource`. Whoever opens it calls `_take`."""

    _video: cv2.VideoCapture | None = None

    def read(self) -> Picture | None:
        """uint8 [h, w, 3], BGR; None at the end. Raises Retryable when decoding broke."""
        if self._video is None:
            raise Fatal("the camera was read before it was opened")
        try:
            there, picture = self._video.read()
        except cv2.error as error:
            raise Retryable(f"decoding failed: {error}") from error
        return picture.astype(np.uint8, copy=False) if there else None

    def let_go(self) -> None:
        """Nothing to do: a call in C code cannot be interrupted, and ends by its own timeout."""

    def close(self) -> None:
        if self._video is not None:
            self._video.release()
            self._video = None

    def _take(self, video: cv2.VideoCapture) -> Shape:
        """What an open camera says of itself; 0 frames per second where it does not know."""
        self._video = video
        fps = float(video.get(cv2.CAP_PROP_FPS))
        return Shape(
            width_px=int(video.get(cv2.CAP_PROP_FRAME_WIDTH)),
            height_px=int(video.get(cv2.CAP_PROP_FRAME_HEIGHT)),
            fps=fps if math.isfinite(fps) and fps > 0 else 0.0,
        )
