"""`/healthz` (the process lives), `/readyz` (it does its work; 503 with words if not), both with words if degraded, `/metrics`.

One server for the agent and the worker: it is what a process shows the outside, like its exit code and its ready
line, so the commands start it around either and neither knows of it. It serves from before the models load until
after the drain. A slow, hanging or greedy client costs nobody else anything: seats are few, and each is taken back after
seconds, however busily its client drips.
"""

import logging
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6, SHUT_RDWR, socket
from typing import Any

from cloud.listeners.addresses import not_bound
from pipelines.listen import HttpConfig

log = logging.getLogger(__name__)

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SEATS = 16
SEAT_S = 5.0
_LOOK_S = 0.1


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # of the system's own 5, a burst of clients would wait seconds for its next try
    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], *, seat_s: float
    ) -> None:
        self._seats = threading.BoundedSemaphore(SEATS)
        self._seat_s = seat_s
        self._lock = threading.Lock()
        self._until_s: dict[socket, float] = {}
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # HTTPServer would look its own name up, which hangs for seconds where there is no name server.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._seats.acquire(blocking=False):
            self.shutdown_request(request)
            return
        with self._lock:
            self._until_s[request] = time.monotonic() + self._seat_s
        try:
            super().process_request(request, client_address)
        except RuntimeError as error:  # no thread could be started
            log.warning("http: %s was sent away: %s", client_address, error)
            self._leave(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(request)

    def _leave(self, request: socket) -> None:
        with self._lock:
            del self._until_s[request]
        self._seats.release()

    def service_actions(self) -> None:
        """Between two looks for connections: the deadline is the connection's, no byte of its client moves it."""
        self._cut(time.monotonic())

    def server_close(self) -> None:
        super().server_close()
        self._cut(float("inf"))

    def _cut(self, now_s: float) -> None:
        """End the connections whose time is over; their threads then come back from whatever they wait for."""
        with self._lock:
            over = [request for request, until_s in self._until_s.items() if until_s <= now_s]
        for request in over:
            with suppress(OSError):
                request.shutdown(SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        del request
        log.debug("http: %s broke off", client_address)


class _Ipv6Server(_Server):
    address_family = AF_INET6


class HttpServer:
    """`address` is `host:port` (IPv6 in brackets), port 0 for any; after `start` it is the bound `http://host:port`.

    `not_ready` gives the reasons against new work, `degraded` what is not as good as it could be while all work is done,
    `metrics` the Prometheus text; all are asked from the server's threads. `key` is how the configuration calls the
    address. A connection ends after `seat_s`.
    """

    def __init__(
        self,
        *,
        address: str,
        not_ready: Callable[[], Sequence[str]],
        metrics: Callable[[], bytes],
        degraded: Callable[[], Sequence[str]] = tuple,
        key: str = "http.address",
        seat_s: float = SEAT_S,
    ) -> None:
        self._wanted = address
        self._not_ready = not_ready
        self._metrics = metrics
        self._degraded = degraded
        self._key = key
        self._seat_s = seat_s
        self._server: ThreadingHTTPServer | None = None
        self._thread = threading.Thread(target=self._run, name="nearfar-http", daemon=True)
        self.address = ""

    def start(self) -> None:
        """Bind and serve. ConfigError, in words, when the address cannot be bound."""
        host, _, port = self._wanted.rpartition(":")
        try:
            server = _Ipv6Server if ":" in host else _Server
            self._server = server((host.strip("[]"), int(port)), self._handler(), seat_s=self._seat_s)
        except OSError as error:
            raise not_bound(self._key, self._wanted, error) from error
        self.address = f"http://{host}:{self._server.server_address[1]}"
        self._thread.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(2.0)
            self._server = None

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """`(status, content type, body)` of a GET."""
        match path.partition("?")[0]:
            case "/healthz":
                return 200, "text/plain; charset=utf-8", "\n".join(["alive", *self._degraded(), ""]).encode()
            case "/readyz":
                reasons = self._not_ready()
                if reasons:
                    return 503, "text/plain; charset=utf-8", ("; ".join(reasons) + "\n").encode()
                words = "; ".join(self._degraded())
                said = f"ready, degraded: {words}\n" if words else "ready\n"
                return 200, "text/plain; charset=utf-8" if words else "text/plain", said.encode()
            case "/metrics":
                return 200, METRICS_TYPE, self._metrics()
            case _:
                return 404, "text/plain", b"there are /healthz, /readyz and /metrics\n"

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        try:
            return self.answer(path)
        except Exception:
            log.exception("http: %s could not be answered", path)
            return 500, "text/plain", b"this page failed; the log says why\n"

    def _run(self) -> None:
        assert self._server is not None  # noqa: S101 - start() made it
        self._server.serve_forever(poll_interval=_LOOK_S)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            default_request_version = "HTTP/1.0"  # what came is no HTTP: it is still told so by a status line
            error_message_format = "%(code)d %(message)s\n"
            error_content_type = "text/plain; charset=utf-8"

            def do_GET(self) -> None:
                status, content_type, body = answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's signature
                log.debug(format, *args)

        return Handler


@contextmanager
def serving(
    config: HttpConfig | None,
    *,
    key: str,
    not_ready: Callable[[], Sequence[str]],
    metrics: Callable[[], bytes],
    degraded: Callable[[], Sequence[str]] = tuple,
) -> Iterator[str | None]:
    """Serve as `config` says while the block runs; yields the bound address, None when nothing is to be served."""
    if config is None:
        yield None
        return
    server = HttpServer(
        address=config.address, not_ready=not_ready, metrics=metrics, degraded=degraded, key=key
    )
    server.start()
    try:
        yield server.address
    finally:
        server.stop()
