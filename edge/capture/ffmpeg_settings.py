"""FFmpeg as OpenCV has it, told to be quick and quiet.

Its settings go through an environment variable that the whole process shares and that is read at the
beginning of every open. So each setting stays in place long enough to be read before another replaces it.
"""

import os
import threading
import time

import cv2

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
