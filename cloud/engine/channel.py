"""A pair of sockets between front and engine that says whole messages, and says at once when the other side is gone.

One thread receives on an end at a time; any thread may send. What is torn (the other side died inside a message) is
`ChannelClosedError` like any other end, what cannot be a message at all is MalformedMessageError.
"""

import socket
import threading
from contextlib import suppress
from typing import Self

from cloud.engine.messages import HEAD, Message, pack, read_head
from pipelines.errors import NearfarError

_READ_BYTES = 256 << 10


class ChannelClosedError(NearfarError):
    """The other side has ended."""


class ChannelTimeoutError(NearfarError):
    """Nothing came within the time."""


class Channel:
    """One end. Takes the socket over."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._sending = threading.Lock()
        self._got = bytearray()

    @classmethod
    def pair(cls) -> tuple[Self, socket.socket]:
        """Our end, and the socket for the other process."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(ours), theirs

    def fileno(self) -> int:
        """−1 once closed."""
        return self._line.fileno()

    def send(self, message: Message) -> None:
        """Raises ChannelClosedError. Messages are small: what a reader that hangs has not read waits in the kernel."""
        data = pack(message)
        try:
            with self._sending:
                self._line.sendall(data)
        except OSError as error:
            raise ChannelClosedError("the other side is gone") from error

    def receive(self, within_s: float | None = None) -> Message:
        """The next message. Raises ChannelClosedError, ChannelTimeoutError after `within_s` (None: it waits for ever),
        MalformedMessageError.

        After ChannelTimeoutError the next call goes on where this one was.
        """
        self._fill(HEAD.size, within_s)
        say, run, size = read_head(bytes(self._got[: HEAD.size]))
        self._fill(HEAD.size + size, within_s)
        body = bytes(memoryview(self._got)[HEAD.size : HEAD.size + size])
        del self._got[: HEAD.size + size]
        return Message(say, run, body)

    def hang_up(self) -> None:
        """Whoever waits in `receive`, on either side, is told that it is over; from any thread."""
        with suppress(OSError):  # the other side was faster
            self._line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up and give the socket back. Not while another thread is inside `receive`."""
        self.hang_up()
        self._line.close()

    def _fill(self, size: int, within_s: float | None) -> None:
        while len(self._got) < size:
            try:
                self._line.settimeout(within_s)
                data = self._line.recv(_READ_BYTES)
            except (TimeoutError, BlockingIOError) as error:
                raise ChannelTimeoutError(f"nothing came within {within_s} s") from error
            except OSError as error:
                raise ChannelClosedError("the other side is gone") from error
            if not data:
                raise ChannelClosedError("the other side is gone")
            self._got += data
