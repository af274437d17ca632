"""An MJPEG camera on loopback with the faults of real ones: each connection plays a script.

Also a program: `python -m tests.support.mjpeg PORT WIDTHxHEIGHT FPS` serves a moving square until it is killed.
"""

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import cv2
import numpy as np

BOUNDARY = b"nearfar-frame"
HEAD = (
    b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Type: multipart/x-mixed-replace; boundary="
    + BOUNDARY
    + b"\r\n\r\n"
)


def jpeg(number: int, *, width: int = 64, height: int = 48) -> bytes:
    """A picture whose brightness tells its number (0..31, eight grey levels apart)."""
    picture = np.full((height, width, 3), 8 * (number % 32), np.uint8)
    return bytes(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 90])[1])


def number_of(picture: np.ndarray) -> int:
    return round(float(picture.mean()) / 8)


def part(data: bytes) -> bytes:
    head = b"--" + BOUNDARY + b"\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(data)
    return head + data + b"\r\n"


class Line:
    """The server's end of one connection, after the request was read. Ends with an OSError when the client leaves or
    the server closes."""

    def __init__(self, server: "MjpegServer", connection: socket.socket, number: int) -> None:
        self._server = server
        self._connection = connection
        self.number = number
        self.request = b""

    def send(self, data: bytes) -> None:
        if self._server.closing.is_set():
            raise OSError("the server closes")
        self._connection.sendall(data)

    def pictures(self, numbers: Iterator[int] | range, *, period_s: float = 0.02, **size: int) -> None:
        for number in numbers:
            self.send(part(jpeg(number, **size)))
            self.wait(period_s)

    def wait(self, seconds: float) -> None:
        """Say nothing for so long, or until the server closes or the client leaves."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0:
            if self._server.closing.wait(min(rest, 0.05)):
                raise OSError("the server closes")
            self._look()

    def wait_for(self, event: threading.Event) -> None:
        while not event.is_set():
            self.wait(0.01)

    def freeze(self) -> None:
        """Keep the connection and say nothing more."""
        self.wait(3600)

    def _look(self) -> None:
        self._connection.setblocking(False)
        try:
            if self._connection.recv(1) == b"":
                raise OSError("the client left")
        except BlockingIOError:
            pass
        finally:
            self._connection.settimeout(5)


Script = Callable[[Line], None]


def endless(line: Line) -> None:
    """A camera as it should be: 50 pictures a second, for ever."""
    line.send(HEAD)
    line.pictures(_count())


def _count() -> Iterator[int]:
    number = 0
    while True:
        yield number % 32
        number += 1


class MjpegServer:
    """`script(line)` is run for every connection on a thread of its own; a script that returns drops it. Until
    `accepting` is set, connections are completed by the kernel and never looked at."""

    def __init__(self, script: Script, *, port: int = 0, accepting: bool = True) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", port))
        self._listener.settimeout(0.02)
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/video"
        self.connections = 0
        self.requests: list[bytes] = []
        self.accepting = threading.Event()
        if accepting:
            self.accepting.set()
        self.closing = threading.Event()
        self._threads = [threading.Thread(target=self._accept, name="mjpeg-accept", daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        self.closing.set()
        for thread in self._threads:
            thread.join(5)
        self._listener.close()

    def _accept(self) -> None:
        while not self.closing.is_set():
            if not self.accepting.is_set():
                self.closing.wait(0.01)
                continue
            with contextlib.suppress(TimeoutError):
                connection, _ = self._listener.accept()
                self.connections += 1
                thread = threading.Thread(
                    target=self._serve, args=(connection, self.connections), name="mjpeg-line", daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5)
            line = Line(self, connection, number)
            line.request = connection.recv(4096)
            self.requests.append(line.request)
            self._script(line)


@contextmanager
def mjpeg(script: Script = endless, *, port: int = 0, accepting: bool = True) -> Iterator[MjpegServer]:
    server = MjpegServer(script, port=port, accepting=accepting)
    try:
        yield server
    finally:
        server.close()


def status(code: int, words: str) -> Script:
    """A camera that answers every request with an error."""

    def answer(line: Line) -> None:
        line.send(f"HTTP/1.1 {code} {words}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())

    return answer


def main(port: int, size: str, fps: float) -> None:
    width, _, height = size.partition("x")
    pictures = []
    for step in range(16):
        picture = np.random.default_rng(0).integers(60, 90, (int(height), int(width), 3), np.uint8)
        picture = cv2.blur(picture, (9, 9))
        picture[100:200, 40 + 20 * step : 140 + 20 * step] = 230
        pictures.append(part(bytes(cv2.imencode(".jpg", picture)[1])))

    def play(line: Line) -> None:
        line.send(HEAD)
        begun, number = time.monotonic(), 0
        while True:
            line.send(pictures[number % len(pictures)])
            number += 1
            line.wait(begun + number / fps - time.monotonic())

    with mjpeg(play, port=port) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
