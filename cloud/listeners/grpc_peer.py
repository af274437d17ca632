"""One stream of an agent, as the service sees it: a bounded queue of replies that gRPC's sending thread empties."""

import threading
from collections import deque
from collections.abc import Callable, Iterator

from protos.wire import envelope
from protos.wire.messages import ToAgent


class GrpcPeer(Iterator[bytes]):
    """`heard_us` is when something last arrived, `reader` the thread it is read on. Iterating gives what is queued and ends with the stream."""

    def __init__(self, *, max_queued: int, cancel: Callable[[], object]) -> None:
        self.heard_us = 0
        self._max_queued = max_queued
        self._cancel = cancel
        self._queue: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._gone = False
        self._closing = False
        self.reader: threading.Thread | None = None

    def send(self, message: ToAgent) -> bool:
        if self._gone or self._closing or len(self._queue) >= self._max_queued:
            return False
        data = envelope.pack_to_agent(message)
        with self._changed:
            if self._gone or self._closing or len(self._queue) >= self._max_queued:
                return False
            self._queue.append(data)
            self._changed.notify()
        return True

    def close(self) -> None:
        """End the stream after what is queued."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def cancel(self) -> None:
        """End the stream now, whether or not anybody takes what is queued."""
        self._cancel()

    def end(self) -> None:
        """The stream is over, whoever ended it."""
        with self._changed:
            self._gone = True
            self._queue.clear()
            self._changed.notify()

    def read_with(self, read: Callable[[], None]) -> None:
        """Start the thread that reads this stream."""
        self.reader = threading.Thread(target=read, name="nearfar-grpc-read", daemon=True)
        self.reader.start()

    def __next__(self) -> bytes:
        with self._changed:
            while not self._queue:
                if self._gone or self._closing:
                    raise StopIteration
                self._changed.wait()
            return self._queue.popleft()
