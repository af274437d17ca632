"""A TCP relay that remembers what a worker sends, and reads HTTP/2 frames out of it (RFC 9113, section 4.1)."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SETTINGS, PING = 0x4, 0x6
ACK = 0x1
INITIAL_WINDOW_SIZE = 0x4
_HEADER_BYTES = 9


class Tap:
    """One connection to `port` of this host, through `address`."""

    def __init__(self, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._port = port
        self._said = bytearray()
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._serve)]

    @property
    def address(self) -> str:
        return f"grpc://127.0.0.1:{self._server.getsockname()[1]}"

    def start(self) -> None:
        self._threads[0].start()

    def _serve(self) -> None:
        try:
            agent, _ = self._server.accept()
        except OSError:  # closed before anybody came
            return
        worker = socket.create_connection(("127.0.0.1", self._port))
        self._ends += [agent, worker]
        back = threading.Thread(target=self._copy, args=(worker, agent, self._said))
        self._threads.append(back)
        back.start()
        self._copy(agent, worker, bytearray())

    @staticmethod
    def _copy(source: socket.socket, to: socket.socket, kept: bytearray) -> None:
        try:
            while data := source.recv(65536):
                kept += data
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def frames(self) -> list[tuple[int, int, bytes]]:
        """`(type, flags, payload)` of every whole frame the worker has sent."""
        data, at, out = bytes(self._said), 0, []
        while at + _HEADER_BYTES <= len(data):
            high, low, kind, flags = struct.unpack_from(">BHBB", data, at)
            end = at + _HEADER_BYTES + (high << 16 | low)
            if end > len(data):
                break
            out.append((kind, flags, data[at + _HEADER_BYTES : end]))
            at = end
        return out

    def settings(self) -> dict[int, int]:
        """What the worker told about itself."""
        told: dict[int, int] = {}
        for kind, _, payload in self.frames():
            if kind == SETTINGS:
                told |= dict(struct.iter_unpack(">HI", payload))
        return told

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for end in self._ends:
            end.close()
        for thread in self._threads:
            thread.join(5)


@contextmanager
def tapped(port: int) -> Iterator[Tap]:
    tap = Tap(port)
    tap.start()
    try:
        yield tap
    finally:
        tap.close()
