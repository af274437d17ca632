"""One connection to a camera that sends JPEG pictures over HTTP, each complete in itself.

Picture by picture: sizes may change, and what is no whole JPEG is skipped, never given on. A camera that stamps its
pictures (`X-Timestamp`) has times.
"""

import math
import socket
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import (
    HTTPBasicAuthHandler,
    HTTPDigestAuthHandler,
    HTTPHandler,
    HTTPPasswordMgrWithDefaultRealm,
    ProxyHandler,
    Request,
    build_opener,
)

import cv2
import numpy as np

from edge.capture.base import Shape
from edge.capture.camera_check import what_it_means, why_not
from edge.capture.camera_url import redacted
from edge.capture.multipart import Parts, boundary_of
from pipelines.errors import Fatal, NearfarError, Retryable
from pipelines.frame import Picture

_SLACK_S = 0.5
_BEGINS, _ENDS = b"\xff\xd8", b"\xff\xd9"
_PADDING = b"\x00\r\n"


class OtherContent(NearfarError):
    """The address gives something, but not pictures part by part."""


class MjpegSource:
    """`open_us` bounds each step of opening, `read_us` the silence after which a read ends the connection."""

    def __init__(self, *, url: str, open_us: int, read_us: int) -> None:
        self._url = url
        self._open_s = open_us / 1e6
        self._read_s = read_us / 1e6 + _SLACK_S
        self._response: HTTPResponse | None = None
        self._parts: Parts | None = None
        self._first: Picture | None = None
        self._pts_us: int | None = None

    def open(self) -> Shape:
        """The rate is not known. Raises Retryable, saying what the camera answered, when there is no picture to be
        had; OtherContent when what it sends is no parts of pictures."""
        self.close()
        sockets: list[socket.socket] = []
        try:
            response = self._ask(sockets.append)
            boundary = boundary_of(response.headers.get("Content-Type", ""))
            if boundary is None:
                response.close()
                raise OtherContent
            self._response, self._parts = response, Parts(response, boundary)
            self._first = self._next()
        except HTTPError as error:
            error.close()
            words = what_it_means(error.code, known=bool(urlsplit(self._url).username))
            raise Retryable(f"cannot open {redacted(self._url)}: {words}") from None
        except (OSError, HTTPException):
            self.close()
            raise Retryable(f"cannot open {redacted(self._url)}: {why_not(self._url)}") from None
        if self._first is None:
            self.close()
            raise Retryable(f"cannot open {redacted(self._url)}: the camera sends no whole JPEG picture")
        sockets[-1].settimeout(self._read_s)
        height, width = self._first.shape[:2]
        return Shape(width_px=width, height_px=height, fps=0.0)

    def read(self) -> Picture | None:
        """None when the camera hung up or was silent for too long."""
        if self._parts is None:
            raise Fatal("the camera was read before it was opened")
        if self._first is not None:
            first, self._first = self._first, None
            return first
        try:
            return self._next()
        except (OSError, HTTPException):
            return None

    @property
    def pts_us(self) -> int | None:
        return self._pts_us

    def close(self) -> None:
        if self._response is not None:
            with suppress(OSError):
                self._response.close()
        self._response = self._parts = self._first = self._pts_us = None

    def _ask(self, connected: Callable[[socket.socket], None]) -> HTTPResponse:
        parts = urlsplit(self._url)
        bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        handlers: list[Any] = [ProxyHandler({}), _Connecting(connected)]
        if parts.username:
            known = HTTPPasswordMgrWithDefaultRealm()
            known.add_password(None, bare, unquote(parts.username), unquote(parts.password or ""))
            handlers += [HTTPBasicAuthHandler(known), HTTPDigestAuthHandler(known)]
        request = Request(bare, headers={"Accept": "multipart/x-mixed-replace, */*"})  # noqa: S310 - http only
        response: HTTPResponse = build_opener(*handlers).open(request, timeout=self._open_s)
        return response

    def _next(self) -> Picture | None:
        while self._parts is not None and (part := self._parts.next()) is not None:
            data = part.data.strip(_PADDING)
            if not (data.startswith(_BEGINS) and data.endswith(_ENDS)):
                continue  # cut off: the decoder would make up the rest
            try:
                picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
            except cv2.error:
                continue
            if picture is not None:
                self._pts_us = _stamp_us(part.headers.get("x-timestamp", ""))
                return picture.astype(np.uint8, copy=False)
        return None


def _stamp_us(text: str) -> int | None:
    """`1700000000.040000` seconds as µs; None for anything else."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return round(seconds * 1e6) if math.isfinite(seconds) and seconds > 0 else None


class _Connecting(HTTPHandler):
    """Tells which socket a request goes over, since a response hides it."""

    def __init__(self, connected: Callable[[socket.socket], None]) -> None:
        super().__init__()
        self._connected = connected

    def http_open(self, request: Request) -> HTTPResponse:
        connected = self._connected

        class Telling(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                connected(self.sock)

        return self.do_open(Telling, request)
