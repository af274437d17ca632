"""One connection to a camera that sends JPEG pictures over HTTP, each complete in itself.

Picture by picture: sizes may change, and what is no whole JPEG is skipped, never given on: for as long as a picture
may take, and no longer. A camera that stamps its pictures (`X-Timestamp`) has times.
"""

import math
import socket
import time
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

from edge.capture.base import Shape, skipped_words
from edge.capture.camera_check import what_it_means, why_not
from edge.capture.multipart import Part, Parts, boundary_of
from pipelines.errors import Fatal, NearfarError, Retryable
from pipelines.frame import Picture
from pipelines.redaction import redacted

_SLACK_S = 0.5
_BEGINS, _ENDS = b"\xff\xd8", b"\xff\xd9"
_PADDING = b"\x00\r\n"
_CHUNK_BYTES = 65_536


class UnexpectedContentError(NearfarError):
    """The address gives something, but not pictures part by part."""


class MjpegSource:
    """`open_us` bounds opening to the first picture, `read_us` how long a read goes on without a whole picture.
    `ask_us`: how long the camera is asked why it gave nothing. `skipped` parts were no whole JPEG."""

    def __init__(self, *, url: str, open_us: int, read_us: int, ask_us: int) -> None:
        self._url = url
        self._open_s = open_us / 1e6
        self._read_s = read_us / 1e6 + _SLACK_S
        self._ask_s = ask_us / 1e6
        self._wanted = True
        self._body: _Body | None = None
        self._response: HTTPResponse | None = None
        self._parts: Parts | None = None
        self._first: Picture | None = None
        self._pts_us: int | None = None
        self.skipped = 0

    def open(self) -> Shape:
        """The rate is not known. Raises Retryable, saying what the camera answered, when there is no picture to be
        had; UnexpectedContentError when what it sends is no parts of pictures."""
        self.close()
        until_s = time.monotonic() + self._open_s
        sockets: list[socket.socket] = []
        try:
            response = self._ask(sockets.append)
        except HTTPError as error:
            error.close()
            words = what_it_means(error.code, told_user=bool(urlsplit(self._url).username))
            raise Retryable(f"cannot open {redacted(self._url)}: {words}") from None
        except (OSError, HTTPException, ValueError):  # ValueError: sent on to an address that is none
            words = why_not(self._url, timeout_s=self._ask_s)
            raise Retryable(f"cannot open {redacted(self._url)}: {words}") from None
        boundary = boundary_of(response.headers.get("Content-Type", ""))
        if boundary is None:
            response.close()
            raise UnexpectedContentError
        self._response = response
        self._body = _Body(response, sockets[-1], wanted=lambda: self._wanted)
        self._parts = Parts(self._body, boundary)
        self.skipped = 0
        self._first = self._next(until_s)
        if self._first is None:
            self.close()
            came = skipped_words(self.skipped) or "sends no whole JPEG picture"
            raise Retryable(f"cannot open {redacted(self._url)}: the camera answers, but {came}")
        height, width = self._first.shape[:2]
        return Shape(width_px=width, height_px=height, fps=0.0)

    def read(self) -> Picture | None:
        """None when the camera hung up, or gave no whole picture for too long."""
        if self._parts is None:
            raise Fatal("the camera was read before it was opened")
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return self._next(time.monotonic() + self._read_s)

    @property
    def pts_us(self) -> int | None:
        return self._pts_us

    def let_go(self) -> None:
        self._wanted = False

    def close(self) -> None:
        if self._response is not None:
            with suppress(OSError):
                self._response.close()
        self._response = self._body = self._parts = self._first = self._pts_us = None

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

    def _next(self, until_s: float) -> Picture | None:
        if self._parts is None or self._body is None:
            return None
        self._body.until_s = until_s
        try:
            while (part := self._parts.next()) is not None:
                picture = _picture(part)
                if picture is not None:
                    self._pts_us = _stamp_us(part.headers.get("x-timestamp", ""))
                    return picture
                self.skipped += 1
        except (OSError, HTTPException):
            pass
        return None


class _Body:
    """The bytes of a response as they come, until `until_s` on the monotonic clock or until nobody wants them: then
    every read raises TimeoutError. However little or much comes, no read outlasts that."""

    def __init__(self, response: HTTPResponse, line: socket.socket, *, wanted: Callable[[], bool]) -> None:
        self._response = response
        self._line = line
        self._wanted = wanted
        self._kept = bytearray()
        self.until_s = 0.0

    def readline(self, limit: int, /) -> bytes:
        while (end := self._kept.find(b"\n", 0, limit)) < 0 and len(self._kept) < limit and self._more():
            pass
        return self._take(end + 1 if end >= 0 else limit)

    def read(self, amount: int, /) -> bytes:
        while len(self._kept) < amount and self._more():
            pass
        return self._take(amount)

    def _more(self) -> bool:
        rest_s = self.until_s - time.monotonic()
        if rest_s <= 0 or not self._wanted():
            raise TimeoutError
        self._line.settimeout(rest_s)
        data = self._response.read1(_CHUNK_BYTES)
        self._kept += data
        return bool(data)

    def _take(self, amount: int) -> bytes:
        taken = bytes(self._kept[:amount])
        del self._kept[:amount]
        return taken


def _picture(part: Part) -> Picture | None:
    """None for what is no whole JPEG. What some cameras append behind its end is cut off."""
    data = part.data.lstrip(_PADDING)
    end = data.rfind(_ENDS)
    if not data.startswith(_BEGINS) or end < 0:
        return None  # cut off: the decoder would make up the rest
    try:
        picture = cv2.imdecode(np.frombuffer(data, np.uint8, end + len(_ENDS)), cv2.IMREAD_COLOR)
    except cv2.error:
        return None
    return None if picture is None else picture.astype(np.uint8, copy=False)


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
