"""One connection to a network camera, by the reader that fits: MJPEG over HTTP our own, everything else FFmpeg's.

A dropped connection is the end of it: opening anew is the watchdog's. No message names a secret of the URL.
"""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from edge.capture.base import LiveSource, Shape, Skipping
from edge.capture.camera_url import with_credentials
from edge.capture.ffmpeg import FfmpegSource
from edge.capture.mjpeg import MjpegSource, UnexpectedContentError
from pipelines.errors import Fatal
from pipelines.frame import Picture
from pipelines.redaction import redacted

_ASK_MOST_US = 2_000_000


class CameraSource:
    """`transport`: "tcp" | "udp", of RTSP. `read_us`: silence after which a connection ends by itself.
    `open_us`: from the attempt to the first picture, or to the words why there is none."""

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
        self._wanted = True
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
        # To find out why a camera gives nothing takes time as well, and whoever waits for us waits no longer than
        # `open_us`: a part of it is kept for asking.
        ask_us = min(_ASK_MOST_US, self._open_us // 4)
        until_s = time.monotonic() + (self._open_us - ask_us - ask_us // 4) / 1e6

        def open_us() -> int:
            return max(1_000, round((until_s - time.monotonic()) * 1e6))

        if urlsplit(url).scheme.lower() == "http":
            with suppress(UnexpectedContentError):
                return self._take(
                    MjpegSource(url=url, open_us=open_us(), read_us=self._read_us, ask_us=ask_us)
                )
        return self._take(
            FfmpegSource(
                url=url, transport=self._transport, open_us=open_us(), read_us=self._read_us, ask_us=ask_us
            )
        )

    def read(self) -> Picture | None:
        if self._source is None:
            raise Fatal("the camera was read before it was opened")
        return self._source.read()

    @property
    def pts_us(self) -> int | None:
        return None if self._source is None else self._source.pts_us

    @property
    def skipped(self) -> int:
        source = self._source
        return source.skipped if isinstance(source, Skipping) else 0

    def let_go(self) -> None:
        self._wanted = False
        source = self._source
        if source is not None:
            source.let_go()

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def _take(self, source: LiveSource) -> Shape:
        self._source = source
        if not self._wanted:
            source.let_go()
        try:
            return source.open()
        except BaseException:
            self._source = None
            raise
