"""What cameras share of OpenCV: how it is told to be quick and quiet, and how a picture is read.

The settings of FFmpeg go through an environment variable that the whole process shares and that is read at the
beginning of every open. So each setting stays in place long enough to be read before another replaces it.
"""

import math
import os
import threading
import time

import cv2
import numpy as np

from edge.capture.base import Shape
from pipelines.errors import Retryable
from pipelines.frame import Picture

OPTIONS = "OPENCV_FFMPEG_CAPTURE_OPTIONS"
LOUDNESS = "OPENCV_FFMPEG_LOGLEVEL"
_CV_LOUDNESS = "OPENCV_LOG_LEVEL"
_QUIET = "-8"  # FFmpeg writes to stderr by itself; what it has to say is said in our words
# discardcorrupt: what arrived damaged is not decoded. low_delay, max_delay, reorder_queue_size: no picture waits for
# a later packet. fpsprobesize, analyzeduration: opening takes 0.4 s and not 2. Not nobuffer: it throws away the
# packets read while opening, the first key picture among them, and the next may be seconds away.
_FFMPEG = {
    "fflags": "discardcorrupt",
    "flags": "low_delay",
    "reorder_queue_size": "0",
    "max_delay": "0",
    "fpsprobesize": "0",
    "analyzeduration": "200000",
}
_IN_PLACE_S = 0.2
"""OpenCV reads the variable first thing in an open, before it touches the network."""


class FfmpegSettings:
    """The one place that writes the variable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: str | None = None  # what the user had set before the first open
        self._now = ""
        self._used_s = 0.0

    def put(self, transport: str) -> None:
        """To be followed by an open at once; waits up to 0.2 s for one with another transport to have begun."""
        options = _FFMPEG | {"rtsp_transport": transport}
        with self._lock:
            if self._own is None:
                self._own = os.environ.get(OPTIONS, "")
            # What the user has set comes last, so it wins.
            wanted = "|".join(
                [*(f"{key};{value}" for key, value in options.items()), *filter(None, [self._own])]
            )
            if wanted != self._now:
                time.sleep(max(0.0, self._used_s + _IN_PLACE_S - time.monotonic()))
                self._now = os.environ[OPTIONS] = wanted
                os.environ.setdefault(LOUDNESS, _QUIET)
                if _CV_LOUDNESS not in os.environ:
                    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_ERROR)
            self._used_s = time.monotonic()


_settings = FfmpegSettings()


def settle_ffmpeg(transport: str) -> None:
    """Before every open of a camera; `transport`: "tcp" | "udp", of RTSP."""
    _settings.put(transport)


def shape_of(video: cv2.VideoCapture) -> Shape:
    """What an open camera says of itself; 0 frames per second where it does not know."""
    fps = float(video.get(cv2.CAP_PROP_FPS))
    return Shape(
        width_px=int(video.get(cv2.CAP_PROP_FRAME_WIDTH)),
        height_px=int(video.get(cv2.CAP_PROP_FRAME_HEIGHT)),
        fps=fps if math.isfinite(fps) and fps > 0 else 0.0,
    )


def next_picture(video: cv2.VideoCapture) -> Picture | None:
    """uint8 [h, w, 3], BGR; None at the end. Raises Retryable when decoding broke."""
    try:
        there, picture = video.read()
    except cv2.error as error:
        raise Retryable(f"decoding failed: {error}") from error
    if not there:
        return None
    return picture.astype(np.uint8, copy=False)
