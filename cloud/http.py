"""`/healthz` (the process lives), `/readyz` (it should get work; 503 with words if not), `/metrics`."""

import logging
import socket
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pipelines.errors import ConfigError

log = logging.getLogger(__name__)

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Ipv6Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6


class HttpServer:
    """`address` is `host:port` (IPv6 in brackets), port 0 for any; after `start` it is the bound `http://host:port`.

    `not_ready` gives the reasons against new work, `metrics` the Prometheus text.
    """

    def __init__(
        self, *, address: str, not_ready: Callable[[], Sequence[str]], metrics: Callable[[], bytes]
    ) -> None:
        self._wanted = address
        self._not_ready = not_ready
        self._metrics = metrics
        self._server: ThreadingHTTPServer | None = None
        self._thread = threading.Thread(target=self._run, name="nearfar-http", daemon=True)
        self.address = ""

    def start(self) -> None:
        """Bind and serve. ConfigError, in words, when the address cannot be bound."""
        host, _, port = self._wanted.rpartition(":")
        try:
            server = _Ipv6Server if ":" in host else ThreadingHTTPServer
            self._server = server((host.strip("[]"), int(port)), self._handler())
        except OSError as error:
            raise ConfigError(f"listen.http.address {self._wanted}: {error.strerror}") from error
        self._server.daemon_threads = True
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
                return 200, "text/plain", b"alive\n"
            case "/readyz":
                reasons = self._not_ready()
                if reasons:
                    return 503, "text/plain", ("; ".join(reasons) + "\n").encode()
                return 200, "text/plain", b"ready\n"
            case "/metrics":
                return 200, METRICS_TYPE, self._metrics()
            case _:
                return 404, "text/plain", b"there are /healthz, /readyz and /metrics\n"

    def _run(self) -> None:
        assert self._server is not None  # noqa: S101 - start() made it
        self._server.serve_forever(poll_interval=0.1)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

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
