"""One connection to a camera through FFmpeg: RTSP, and whatever it reads over HTTP.

Pictures keep the size they had when the connection was opened: OpenCV stretches to it what comes in another.
"""

import cv2

from edge.capture.base import Shape
from edge.capture.camera_check import why_not
from edge.capture.ffmpeg_settings import settle_ffmpeg
from edge.capture.video import VideoSource
from pipelines.errors import Retryable
from pipelines.redaction import redacted

# Below the watchdog's patience FFmpeg must not give up, or its silence would look like a dropped connection.
_SLACK_MS = 500
# What OpenCV says when the stream carries no times.
_NO_PTS = -(2.0**62)


class FfmpegSource(VideoSource):
    """`transport`: "tcp" | "udp", of RTSP. `open_us`, `read_us`: after these FFmpeg gives up by itself; `ask_us`: how
    long the camera is asked why it gave nothing."""

    def __init__(self, *, url: str, transport: str, open_us: int, read_us: int, ask_us: int) -> None:
        self._url = url
        self._transport = transport
        self._open_us = open_us
        self._read_us = read_us
        self._ask_s = ask_us / 1e6

    def open(self) -> Shape:
        """Raises Retryable, saying what the camera answered, when there is no picture to be had."""
        self.close()
        settle_ffmpeg(self._transport)
        video = cv2.VideoCapture(
            self._url,
            cv2.CAP_FFMPEG,
            [
                cv2.CAP_PROP_OPEN_TIMEOUT_MSEC,
                self._open_us // 1000,
                cv2.CAP_PROP_READ_TIMEOUT_MSEC,
                self._read_us // 1000 + _SLACK_MS,
                # One thread: with more, each decoded picture would wait for the next ones.
                cv2.CAP_PROP_N_THREADS,
                1,
            ],
        )
        if not video.isOpened():
            video.release()
            raise Retryable(f"cannot open {redacted(self._url)}: {why_not(self._url, timeout_s=self._ask_s)}")
        return self._take(video)

    @property
    def pts_us(self) -> int | None:
        if self._video is None or self._video.get(cv2.CAP_PROP_PTS) < _NO_PTS:
            return None
        return round(self._video.get(cv2.CAP_PROP_POS_MSEC) * 1000)
