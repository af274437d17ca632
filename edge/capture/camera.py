"""One connection to a network camera, by the reader that fits: MJPEG over HTTP our own, everything else FFmpeg's.

A dropped connection is the end of it: opening anew is the watchdog's. No message names a secret of the URL.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from edge.capture.base import LiveSource, Shape
from edge.capture.camera_url import redacted, with_credentials
from edge.capture.ffmpeg import FfmpegSource
from edge.capture.mjpeg import MjpegSource, OtherContent
from pipelines.errors import Fatal
from pipelines.frame import Picture


class CameraSource:
    """`transport`: "tcp" | "udp", of RTSP. `open_us`, `read_us`: after these a connection ends by itself."""

    def __init__(
        self,
        *,
        url: str,
        user: str | None = None,
        password_file: Path | None = None,
        transport: str = "tcp",
        open_us: int = 10_000_000,
        read_us: int = 2_000_000,
    ) -> None:
        self._url = url
        self._user = user
        self._password_file = password_file
        self._transport = transport
        self._open_us = open_us
        self._read_us = read_us
        self._source: LiveSource | None = None

    def __repr__(self) -> str:
        return f"<CameraSource {redacted(self._url)}>"

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(
            url=str(config.url),
            user=config.user,
            password_file=config.password_file,
            transport=config.transport,
            open_us=config.open_timeout,
            read_us=config.stall_after,
        )

    def open(self) -> Shape:
        """Raises Retryable, saying what the camera answered, when there is no picture to be had; ConfigError when the
        password cannot be read."""
        self.close()
        url = with_credentials(self._url, self._user, self._password_file)
        if urlsplit(url).scheme.lower() == "http":
            with suppress(OtherContent):
                return self._take(MjpegSource(url=url, open_us=self._open_us, read_us=self._read_us))
        return self._take(
            FfmpegSource(url=url, transport=self._transport, open_us=self._open_us, read_us=self._read_us)
        )

    def read(self) -> Picture | None:
        if self._source is None:
            raise Fatal("the camera was read before it was opened")
        return self._source.read()

    @property
    def pts_us(self) -> int | None:
        return None if self._source is None else self._source.pts_us

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def _take(self, source: LiveSource) -> Shape:
        shape = source.open()
        self._source = source
        return shape
