"""One stream of an agent, as the service sees it: a bounded queue of replies that gRPC's sending thread empties."""

import threading
from collections import deque
from collections.abc import Callable, Iterator

from protos.wire import envelope
from protos.wire.messages import ToAgent


class GrpcPeer(Iterator[bytes]):
    """`heard_us` is when something last arrived, `reader` the thread it is read on. Iterating gives what is queued and
    ends with the stream.

    The one thread that iterates waits behind a bell that is rung once for each time it waits: a condition would make
    a lock for each.
    """

    def __init__(self, *, max_queued: int, cancel: Callable[[], object]) -> None:
        self.heard_us = 0
        self._max_queued = max_queued
        self._cancel = cancel
        self._queue: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._bell = threading.Lock()
        self._bell.acquire()
        self._waits = False
        self._gone = False
        self._closing = False
        self.reader: threading.Thread | None = None

    def send(self, message: ToAgent) -> bool:
        if self._gone or self._closing or len(self._queue) >= self._max_queued:
            return False
        data = envelope.pack_to_agent(message)
        with self._lock:
            if self._gone or self._closing or len(self._queue) >= self._max_queued:
                return False
            self._queue.append(data)
            self._ring()
        return True

    def close(self) -> None:
        """End the stream after what is queued."""
        with self._lock:
            self._closing = True
            self._ring()

    def cancel(self) -> None:
        """End the stream now, whether or not anybody takes what is queued."""
        self._cancel()

    def end(self) -> None:
        """The stream is over, whoever ended it."""
        with self._lock:
            self._gone = True
            self._queue.clear()
            self._ring()

    def read_with(self, read: Callable[[], None]) -> None:
        """Start the thread that reads this stream."""
        self.reader = threading.Thread(target=read, name="nearfar-grpc-read", daemon=True)
        self.reader.start()

    def _ring(self) -> None:
        """Under the lock."""
        if self._waits:
            self._waits = False
            self._bell.release()

    def __next__(self) -> bytes:
        while True:
            with self._lock:
                if self._queue:
                    return self._queue.popleft()
                if self._gone or self._closing:
                    raise StopIteration
                self._waits = True
            self._bell.acquire()
