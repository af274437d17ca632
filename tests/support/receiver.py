"""A web server that takes answers, as a test scripts it: what it says to each request, and what it was sent."""

import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Said = int | tuple[int, dict[str, str]]


class Receiver:
    """Says 200 unless `judge` (given the answers of a request) says something else, or hangs while `hangs` is set.

    `taken` are the answers of requests that got 2xx, in order; `requests` all of them, with their headers.
    """

    def __init__(self, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.judge: Callable[[list[dict[str, Any]]], Said] = lambda _answers: 200
        self.hangs = threading.Event()
        self.drips = threading.Event()
        self.requests: list[tuple[dict[str, str], list[dict[str, Any]]]] = []
        self.taken: list[dict[str, Any]] = []
        self._free = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answers = json.loads(body)["answers"]
                receiver.requests.append((dict(self.headers), answers))
                if receiver.hangs.is_set():
                    receiver._free.wait(20)
                    self.close_connection = True
                    return
                if receiver.drips.is_set():
                    self._drip()
                    return
                said = receiver.judge(answers)
                status, headers = said if isinstance(said, tuple) else (said, {})
                if 200 <= status < 300:
                    receiver.taken += answers
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def _drip(self) -> None:
                """A byte of a header that never ends, again and again."""
                self.close_connection = True
                with suppress(OSError):
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    while not receiver._free.wait(0.02):
                        self.wfile.write(b"a")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's
                del format, args

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                del request, client_address  # clients that leave are what is tested

            def get_request(self) -> Any:
                connection, address = super().get_request()
                receiver.connections.append(connection)
                return connection, address

        self.connections: list[socket.socket] = []
        self._server = Server(("127.0.0.1", port), Handler)
        self.port: int = self._server.server_address[1]
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'' if tls is None else 's'}://127.0.0.1:{self.port}/answers"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def seqs(self) -> list[int]:
        return [answer["seq"] for answer in self.taken]

    def close(self) -> None:
        self._free.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
