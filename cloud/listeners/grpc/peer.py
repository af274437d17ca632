"""One stream of an agent, as the service sees it: a bounded queue of replies, emptied by one thread at a time.

Replies go out on gRPC's own thread (`pump`), which waits behind a bell that is rung once for each time it waits, or
on the thread that reads the stream: what is said while a message of this stream is served waits for `flush`, for to wake
the other thread would cost more than the reply. Sending may wait for the peer, and holds up nobody but this stream.
"""

import threading
from collections import deque
from collections.abc import Callable

from protos.bell import Bell
from protos.wire import envelope
from protos.wire.messages import ToAgent

Transmit = Callable[[bytes | None], None]
"""Hands a message to gRPC and waits until it is taken; None ends the stream."""


class GrpcPeer:
    """`heard_us` is when something last arrived; `connection` names the one its stream is on."""

    def __init__(
        self, *, max_queued: int, transmit: Transmit, cancel: Callable[[], object], connection: str
    ) -> None:
        self.heard_us = 0
        self.connection = connection
        self._max_queued = max_queued
        self._transmit = transmit
        self._cancel = cancel
        self._queue: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._bell = Bell()
        self._sending = False
        self._gone = False
        self._closing = False
        self._serving: set[int] = set()  # threads that will flush

    def send(self, message: ToAgent) -> bool:
        if self._gone or self._closing or len(self._queue) >= self._max_queued:
            return False
        data = envelope.pack_to_agent(message)
        with self._lock:
            if self._gone or self._closing or len(self._queue) >= self._max_queued:
                return False
            self._queue.append(data)
            if threading.get_ident() not in self._serving:
                self._bell.ring()
        return True

    def serving(self) -> None:
        """The calling thread begins to serve a message of this stream; it will `flush`."""
        self._serving.add(threading.get_ident())

    def flush(self) -> None:
        """It has served it: send what is queued, unless another thread is sending, which then does."""
        self._serving.discard(threading.get_ident())
        while (data := self._next_to_send()) is not None:
            self._send(data)

    def pump(self) -> None:
        """Send what nobody flushes, until the stream is over; then end it."""
        while True:
            with self._lock:
                data = None if self._sending or self._gone or not self._queue else self._queue.popleft()
                self._sending = self._sending or data is not None
                over = self._gone or (self._closing and not self._queue and not self._sending)
                if data is None and not over:
                    self._bell.expect()
            if data is not None:
                self._send(data)
            elif over:
                break
            else:
                self._bell.wait()
        self._transmit(None)

    def close(self) -> None:
        """End the stream after what is queued."""
        with self._lock:
            self._closing = True
            self._bell.ring()

    def cancel(self) -> None:
        """End the stream now, whether or not anybody takes what is queued."""
        self._cancel()

    def end(self) -> None:
        """The stream is over, whoever ended it."""
        with self._lock:
            self._gone = True
            self._queue.clear()
            self._bell.ring()

    def _next_to_send(self) -> bytes | None:
        with self._lock:
            if self._sending or self._gone or not self._queue:
                return None
            self._sending = True
            return self._queue.popleft()

    def _send(self, data: bytes) -> None:
        """What has been taken off the queue; who ends `_sending` looks after what came meanwhile."""
        try:
            self._transmit(data)
        finally:
            with self._lock:
                self._sending = False
                if self._queue or self._closing or self._gone:
                    self._bell.ring()
