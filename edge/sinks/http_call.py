"""One HTTP POST with a deadline that nothing moves: not a name with many dead addresses, not a receiver that drips, hangs
in the handshake or never ends its answer. Only a name server that is silent may take what the system's resolver grants it.

The connection is kept for the next call. One that the receiver closed meanwhile is made anew, once and at once.
"""

import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from edge.sinks.words import words_of
from pipelines.errors import Retryable

_MOST_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    reason: str
    retry_after: str


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
        self._socket: socket.socket | None = None  # of the connection, from before it is connected
        self._end_s = 0.0  # when the call that runs must be over, monotonic
        self._over = ""  # why the call that runs must end
        self._interrupted = False

    def post(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Raises Retryable, with words, when no whole answer came in time."""
        self._over = "interrupted" if self._interrupted else ""
        self._end_s = time.monotonic() + self._timeout_s
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
            raise Retryable(self._over or (self._too_late if late else words_of(error))) from error
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
            open_socket, self._socket = self._socket, None
        if connection is not None:
            connection.close()
        if open_socket is not None:
            open_socket.close()

    def _exchange(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        connection = self._opened()
        connection.request("POST", self._path, body=body, headers=dict(headers))
        with connection.getresponse() as response:
            rest = response.read(_MOST_READ_BYTES + 1)
            reply = Reply(
                status=response.status,
                reason=response.reason,
                retry_after=response.getheader("Retry-After", ""),
            )
            if len(rest) > _MOST_READ_BYTES or response.will_close:
                self.drop()
        if self._over:  # what was cut off may look like an end
            raise TimeoutError(self._over)
        return reply

    def _opened(self) -> HTTPConnection:
        if self._connection is None:
            made = (
                HTTPConnection(self._host, self._port)
                if self._tls is None
                else HTTPSConnection(self._host, self._port, context=self._tls)
            )
            made.sock = self._connected(made.host, made.port)
            self._connection = made
        self._connection.sock.settimeout(self._left_s())
        return self._connection

    def _connected(self, host: str, port: int) -> socket.socket:
        """To the first address that takes us before the call must be over, with TLS if that is asked for."""
        refused: OSError | None = None
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for place, (family, kind, protocol, _, address) in enumerate(found):
            try:
                made = socket.socket(family, kind, protocol)
                self._publish(made)
                # One that is dead leaves time for the rest.
                made.settimeout(self._left_s() / (len(found) - place))
                made.connect(address)
                made.settimeout(self._left_s())
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is None:
                    return made
                secure = self._tls.wrap_socket(made, server_hostname=host, do_handshake_on_connect=False)
                self._publish(secure)
                secure.do_handshake()
            except OSError as error:
                self.drop()
                if self._over or isinstance(error, ssl.SSLError):  # another address would say the same
                    raise
                refused = error
            else:
                return secure
        raise refused or OSError(f"{host} has no address")

    def _publish(self, made: socket.socket) -> None:
        """From here on `interrupt` and the deadline reach it, whatever it is doing."""
        with self._lock:
            self._socket = made
        made.settimeout(self._left_s())

    def _left_s(self) -> float:
        """Raises TimeoutError when nothing is."""
        left_s = self._end_s - time.monotonic()
        if self._over or left_s <= 0:
            raise TimeoutError(self._over or self._too_late)
        return left_s

    def _end(self, why: str) -> None:
        self._over = self._over or why
        with self._lock:
            if self._socket is not None:
                with suppress(OSError):
                    # Not the one of SSLSocket, which takes its state away from under the thread that uses it.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
