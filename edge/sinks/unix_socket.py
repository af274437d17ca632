"""Answers for the program next door: a Unix socket that any number of readers, up to a bound, connect to.

Every reader gets the lines the JSONL sink writes, from the next answer on. A reader that is slow delays nobody:
its lines wait in a bounded buffer, the newest are kept and `{"dropped": n}` tells what is missing; one that
takes nothing for HOPELESS_US is disconnected. Sending never blocks; what readers send is discarded.
"""

import contextlib
import json
import logging
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from edge.sinks import socket_file
from edge.sinks.backlog import Backlog
from edge.sinks.place import Place
from edge.telemetry.frame_lines import answer_line
from pipelines.errors import ConfigError
from pipelines.result import Answer
from pipelines.runtime import monotonic_us

log = logging.getLogger(__name__)

MAX_READERS = 16
BACKLOG_BYTES = 256 * 1024
HOPELESS_US = 10_000_000
_KERNEL_BUFFER_BYTES = 64 * 1024  # what lies there can not be replaced by newer answers, so not more
_FAREWELL_US = 200_000
_LOOK_EVERY_MS = 1000
_FILE_EVERY_US = 1_000_000
_ACCEPT_AGAIN_US = 1_000_000  # after the kernel had no descriptor left for a connection
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


class _Reader:
    """One connected program. `progress_us`: when it last took something or had nothing to take."""

    def __init__(self, connection: socket.socket, now_us: int) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER_BYTES)
        self.connection = connection
        self.backlog = Backlog(BACKLOG_BYTES)
        self.progress_us = now_us
        self.speaks = True  # until it has said that it sends nothing

    def push(self, now_us: int) -> bool:
        """Send what the kernel takes at once; False when the reader is gone."""
        while chunk := self.backlog.next_chunk():
            try:
                count = self.connection.send(chunk)
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                return False
            self.backlog.sent(count)
            self.progress_us = now_us
        self.progress_us = now_us
        return True

    def listen(self) -> None:
        """Throw away what it sends, so that it cannot fill the socket; a half-closed reader stays."""
        with contextlib.suppress(BlockingIOError, InterruptedError, ConnectionError):
            self.speaks = bool(self.connection.recv(4096))

    @property
    def events(self) -> int:
        return (select.POLLIN if self.speaks else 0) | (select.POLLOUT if self.backlog else 0)


class UnixSocketSink:
    """Listens at `path` from construction to `close`, also when the file is removed meanwhile: it is made anew. Raises
    ConfigError when it cannot listen at first, with what to do.

    `readers` are connected now; `missed` counts answers that connected readers did not get, `turned_away`
    connections beyond MAX_READERS. `write` is for one thread; the rest happens on a thread of its own.
    """

    def __init__(self, *, path: Path, mode: int = 0o660, clock_us: Callable[[], int] = monotonic_us) -> None:
        self.path = path
        self._mode = mode
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._readers: dict[int, _Reader] = {}
        self._missed_by_gone = 0
        self.turned_away = 0
        self._closing = False
        self._accept_us = 0  # when to look for new connections again
        self._accept_error = ""
        self._file_us = clock_us() + _FILE_EVERY_US  # when to look for the file again
        self._file_error = ""
        self._listener, self._inode = socket_file.listen(path, mode)
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_out.setblocking(False)
        self._wake_in.setblocking(False)
        self._thread = threading.Thread(target=self._serve, name="answer-socket", daemon=True)
        self._thread.start()

    @classmethod
    def from_config(cls, config: Any, place: Place) -> Self:
        del place  # its path says where it is
        return cls(path=Path(config.path), mode=int(config.mode, 8))

    @property
    def readers(self) -> int:
        with self._lock:
            return len(self._readers)

    @property
    def missed(self) -> int:
        with self._lock:
            return self._missed_by_gone + sum(r.backlog.missed for r in self._readers.values())

    @property
    def behind(self) -> bool:
        """Whether lines wait for a reader that did not take them at once."""
        with self._lock:
            return any(reader.backlog for reader in self._readers.values())

    def counts(self) -> dict[str, int]:
        return {"readers": self.readers, "missed_by_readers": self.missed, "turned_away": self.turned_away}

    def write(self, answer: Answer) -> None:
        """To every reader, as far as it takes it now; what it does not take waits for it."""
        with self._lock:
            if not self._readers:
                return
            line = json.dumps(answer_line(answer), separators=(",", ":")).encode() + b"\n"
            now_us = self._clock_us()
            behind = False
            for fd, reader in list(self._readers.items()):
                if reader.backlog:  # the other thread is at it
                    reader.backlog.add(line)
                    continue
                reader.progress_us = now_us
                reader.backlog.add(line)
                if not reader.push(now_us):
                    self._leave(fd)
                behind = behind or bool(reader.backlog)
        if behind:
            self._wake()

    def flush(self) -> None:
        """Nothing to do: what can be sent was sent."""

    def close(self) -> None:
        """Readers get what they take within _FAREWELL_US; the socket file is removed. Again: nothing."""
        if self._closing:
            return
        self._closing = True
        self._wake()
        self._thread.join()
        self._wake_out.close()
        self._wake_in.close()

    # -- the thread ---------------------------------------------------------------------------------------

    def _serve(self) -> None:
        self._listener.setblocking(False)
        while not self._closing:
            self._turn(_LOOK_EVERY_MS, accept=True)
            self._keep_file()
        socket_file.remove(self.path, self._inode)
        self._listener.close()
        end_us = self._clock_us() + _FAREWELL_US
        while self.behind and (left_us := end_us - self._clock_us()) > 0:
            self._turn(max(1, left_us // 1000), accept=False)
        with self._lock:
            for fd in list(self._readers):
                self._leave(fd)

    def _keep_file(self) -> None:
        """Whoever cleans up /run must not cut off readers to come: without its file nobody finds the socket."""
        now_us = self._clock_us()
        if now_us < self._file_us:
            return
        self._file_us = now_us + _FILE_EVERY_US
        if socket_file.is_ours(self.path, self._inode):
            self._file_error = ""
            return
        try:
            listener, self._inode = socket_file.listen(self.path, self._mode)
        except ConfigError as error:
            if str(error) != self._file_error:
                self._file_error = str(error)
                log.warning("answer socket: its file was removed and cannot be made anew: %s", error)
            return
        self._listener.close()
        self._listener = listener
        self._listener.setblocking(False)
        log.warning("answer socket %s: its file was removed; it is made anew", self.path)

    def _turn(self, timeout_ms: int, *, accept: bool) -> None:
        """Wait for something to do and do it."""
        poll = select.poll()
        poll.register(self._wake_in, select.POLLIN)
        listener = self._listener.fileno()
        if accept and self._clock_us() >= self._accept_us:
            poll.register(listener, select.POLLIN)
        with self._lock:
            for fd, reader in self._readers.items():
                poll.register(fd, reader.events)  # with no events it still hears of the other end's close
        for fd, events in poll.poll(timeout_ms):
            if fd == self._wake_in.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._wake_in.recv(4096)
            elif fd == listener:
                self._accept()
            else:
                self._serve_one(fd, events)
        self._drop_hopeless()

    def _serve_one(self, fd: int, events: int) -> None:
        with self._lock:
            reader = self._readers.get(fd)
            if reader is None:
                return
            if events & select.POLLIN:
                reader.listen()
            if events & _GONE or (events & select.POLLOUT and not reader.push(self._clock_us())):
                self._leave(fd)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except (
            OSError
        ) as error:  # out of file descriptors, say: who waits is served when there are some again
            if str(error) != self._accept_error:
                self._accept_error = str(error)
                log.warning("answer socket %s: no new reader can be served: %s", self.path, error)
            self._accept_us = self._clock_us() + _ACCEPT_AGAIN_US
            return
        self._accept_error = ""
        with self._lock:
            if len(self._readers) < MAX_READERS:
                self._readers[connection.fileno()] = _Reader(connection, self._clock_us())
                return
        self.turned_away += 1
        notice = {"error": f"{MAX_READERS} readers are connected already, no more are served"}
        with connection, contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.send(json.dumps(notice).encode() + b"\n")

    def _drop_hopeless(self) -> None:
        now_us = self._clock_us()
        with self._lock:
            for fd, reader in list(self._readers.items()):
                if reader.backlog and now_us - reader.progress_us >= HOPELESS_US:
                    log.warning(
                        "answer socket %s: a reader took nothing for %d s and is disconnected",
                        self.path,
                        HOPELESS_US // 1_000_000,
                    )
                    self._leave(fd)

    def _leave(self, fd: int) -> None:
        reader = self._readers.pop(fd)
        reader.backlog.give_up()
        self._missed_by_gone += reader.backlog.missed
        reader.connection.close()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_out.send(b"!")
