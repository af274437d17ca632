"""One stream of an agent on somebody else's event loop: a bounded queue of replies that the loop empties.

`send` comes from any thread and never blocks; iterating belongs to the loop. The loop is woken once for each time it
waits, however many replies came meanwhile.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator

from protos.wire import envelope
from protos.wire.messages import ToAgent


class StreamPeer(AsyncIterator[bytes]):
    """`heard_us` is when something last arrived. Made on its loop; iterating ends with the stream."""

    def __init__(self, *, max_queued: int, heard_us: int) -> None:
        self.heard_us = heard_us
        self._max_queued = max_queued
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()
        self._queue: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._waits = False
        self._ended = False

    def send(self, message: ToAgent) -> bool:
        if self._ended or len(self._queue) >= self._max_queued:
            return False
        data = envelope.pack_to_agent(message)
        with self._lock:
            if self._ended or len(self._queue) >= self._max_queued:
                return False
            self._queue.append(data)
            self._ring()
        return True

    def close(self) -> None:
        """End the stream after what is queued."""
        with self._lock:
            self._ended = True
            self._ring()

    def end(self) -> None:
        """End it now, whether or not anybody takes what is queued."""
        with self._lock:
            self._ended = True
            self._queue.clear()
            self._ring()

    def _ring(self) -> None:
        """Under the lock."""
        if self._waits:
            self._waits = False
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the stream
                self._loop.call_soon_threadsafe(self._bell.set)

    async def __anext__(self) -> bytes:
        while True:
            with self._lock:
                if self._queue:
                    return self._queue.popleft()
                if self._ended:
                    raise StopAsyncIteration
                self._bell.clear()
                self._waits = True
            await self._bell.wait()
