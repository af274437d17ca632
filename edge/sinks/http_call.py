"""One HTTP POST with a deadline that nothing moves: not a receiver that drips, hangs or never ends its answer.

The connection is kept for the next call. One that the receiver closed meanwhile is made anew, once and at once.
"""

import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import SHUT_RDWR
from urllib.parse import urlsplit

from pipelines.errors import Retryable

_MOST_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    reason: str
    retry_after: str
    location: str


class HttpCall:
    """Used by one thread, but `interrupt`. `tls` is for an https URL."""

    def __init__(self, url: str, *, timeout_us: int, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._timeout_s = timeout_us / 1e6
        self._too_late = f"no answer within {self._timeout_s:g} s"
        self._tls = tls
        self._lock = threading.Lock()
        self._connection: HTTPConnection | None = None
        self._over = ""  # why the call that runs must end
        self._interrupted = False

    def post(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Raises Retryable, with words, when no whole answer came in time."""
        self._over = "interrupted" if self._interrupted else ""
        timer = threading.Timer(self._timeout_s, self._end, (self._too_late,))
        timer.daemon = True
        timer.start()
        try:
            kept = self._connection is not None
            try:
                return self._exchange(body, headers)
            except (ConnectionError, HTTPException):
                if not kept or self._over:
                    raise
                self.drop()
                return self._exchange(body, headers)
        except (OSError, HTTPException, ValueError) as error:
            self.drop()
            late = isinstance(error, TimeoutError)  # of the socket, which counts from its own last step
            raise Retryable(self._over or (self._too_late if late else _words_of(error))) from error
        finally:
            timer.cancel()
            timer.join()

    def interrupt(self) -> None:
        """End the call that runs, and every later one."""
        self._interrupted = True
        self._end("interrupted")

    def drop(self) -> None:
        """Close the connection."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _exchange(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        connection = self._opened()
        connection.request("POST", self._path, body=body, headers=dict(headers))
        with connection.getresponse() as response:
            rest = response.read(_MOST_READ_BYTES + 1)
            reply = Reply(
                status=response.status,
                reason=response.reason,
                retry_after=response.getheader("Retry-After", ""),
                location=response.getheader("Location", ""),
            )
            if len(rest) > _MOST_READ_BYTES or response.will_close:
                self.drop()
        if self._over:  # what was cut off may look like an end
            raise TimeoutError(self._over)
        return reply

    def _opened(self) -> HTTPConnection:
        if self._connection is None:
            made = (
                HTTPConnection(self._host, self._port, timeout=self._timeout_s)
                if self._tls is None
                else HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=self._tls)
            )
            try:
                made.connect()
            except BaseException:
                made.close()
                raise
            with self._lock:
                self._connection = made
        if self._over:
            raise TimeoutError(self._over)
        return self._connection

    def _end(self, why: str) -> None:
        self._over = self._over or why
        with self._lock:
            connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(SHUT_RDWR)


def _words_of(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__
