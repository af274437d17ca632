"""What other threads hand to a link's thread: bounded by messages and bytes, all of a batch or none.

A full mailbox says so at once; nobody ever waits in it.
"""

import threading
from collections import deque

from protos.wire.bulk import BulkBatch
from protos.wire.live import FrameBody
from protos.wire.messages import ToWorker

Batch = tuple[ToWorker, ...]

HEADER_BYTES = 128  # what a message without a payload is counted as


def payload_bytes(message: ToWorker) -> int:
    """The size of a message as the bounds count it."""
    match message:
        case FrameBody():
            return HEADER_BYTES + memoryview(message.data).nbytes
        case BulkBatch():
            return HEADER_BYTES + len(message.records_zstd) + sum(len(c.data) for c in message.chunks)
        case _:
            return HEADER_BYTES


class Mailbox:
    """Batches in order. One larger than `max_bytes` is taken only while the mailbox is empty."""

    def __init__(self, *, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._batches: deque[Batch] = deque()
        self._messages = 0
        self._bytes = 0

    def offer(self, batch: Batch) -> bool:
        """False when the batch does not fit; nothing of it is kept then."""
        size_bytes = sum(payload_bytes(m) for m in batch)
        with self._lock:
            if self._batches and (
                self._messages + len(batch) > self._max_messages or self._bytes + size_bytes > self._max_bytes
            ):
                return False
            self._batches.append(batch)
            self._messages += len(batch)
            self._bytes += size_bytes
        return True

    def take(self) -> list[Batch]:
        """Everything offered so far; the mailbox is empty afterwards."""
        if not self._batches:
            return []
        with self._lock:
            batches = list(self._batches)
            self._batches.clear()
            self._messages = self._bytes = 0
        return batches
