"""A TCP switch in front of workers: agents know its port, the test decides which worker is behind it."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Switch:
    """Connections go to `target` as it is when they are opened, and end when either side ends."""

    def __init__(self) -> None:
        self._age = 0  # connections of an earlier age are forgotten
        self.target = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, name="switch", daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            left = list(self._open)
        for end in left:
            _end(end)
        for thread in self._threads:
            thread.join(5.0)

    def forget(self) -> None:
        """As a NAT that lost its table: what comes on the connections there are is swallowed, and nobody is told. New
        ones pass."""
        self._age += 1

    def _accept(self) -> None:
        while True:
            try:
                agent, _ = self._server.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._carry, args=(agent,), name="switch", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _carry(self, agent: socket.socket) -> None:
        """One connection, from its opening until both ways have ended."""
        with (
            agent,
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.target)) as worker,
        ):
            born = self._age
            with self._lock:
                self._open |= {agent, worker}
            back = threading.Thread(target=self._pump, args=(worker, agent, born), name="switch", daemon=True)
            back.start()
            self._pump(agent, worker, born)
            back.join()
            with self._lock:
                self._open -= {agent, worker}

    def _pump(self, here: socket.socket, there: socket.socket, born: int) -> None:
        """Bytes from here to there; the end of either ends both, for the thread of the other way as well."""
        with contextlib.suppress(OSError):
            while data := here.recv(1 << 16):
                if born == self._age:
                    there.sendall(data)
        _end(here)
        _end(there)


def _end(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
