"""Payloads on their way into the store: after every record, in small transactions of their own, bounded meanwhile.

A record never waits for a picture: payloads are committed when no record waits, and when the store fails for them only
they are tried again later. What memory cannot hold until then is lost and counted, the least important first.
"""

from edge.outbox.payload import MOST_PAYLOAD_BYTES, PayloadEntry
from edge.outbox.store import Changes, OutboxStore
from pipelines.errors import Retryable

MEMORY_BYTES = 32 << 20
AT_ONCE_BYTES = 1 << 20
RETRY_US = 1_000_000


class PayloadPool:
    """Owned by the writer's thread. `last_error`: why the store takes none, empty while it does."""

    def __init__(self, store: OutboxStore) -> None:
        self._store = store
        self.last_error = ""
        self._waiting: list[PayloadEntry] = []
        self._at_us: list[int] = []
        self._bytes = 0
        self._retry_us = 0
        self.lost = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def due_us(self) -> int | None:
        """When there is something to commit; 0 = now."""
        return self._retry_us if self._waiting else None

    def put(self, entry: PayloadEntry, now_us: int) -> None:
        if len(entry.data) > MOST_PAYLOAD_BYTES:
            self.lost += 1
            return
        self._waiting.append(entry)
        self._at_us.append(now_us)
        self._bytes += entry.bytes
        while self._bytes > MEMORY_BYTES and len(self._waiting) > 1:
            worst = min(range(len(self._waiting)), key=lambda i: self._waiting[i].shown.priority)
            self._bytes -= self._waiting.pop(worst).bytes
            del self._at_us[worst]
            self.lost += 1

    def commit_all(self, now_us: int) -> bool:
        """Everything, at the end; False if something is left."""
        while self.commit(now_us):
            continue
        return not self._waiting

    def commit(self, now_us: int) -> int:
        """The oldest of them, as many as make one short transaction; how many, 0 also when the store takes none for now."""
        if not self._waiting or now_us < self._retry_us:
            return 0
        going, size_bytes = 0, 0
        while going < len(self._waiting) and (going == 0 or size_bytes < AT_ONCE_BYTES):
            size_bytes += self._waiting[going].bytes
            going += 1
        entries = [
            PayloadEntry(shown=e.shown, age_us=e.age_us + now_us - at_us, data=e.data)
            for e, at_us in zip(self._waiting[:going], self._at_us[:going], strict=True)
        ]
        try:
            self._store.commit(Changes(payloads=entries), now_us)
        except Retryable as error:
            self._retry_us = now_us + RETRY_US
            self.last_error = str(error)
            return 0
        self._retry_us, self.last_error = 0, ""
        self._bytes -= sum(entry.bytes for entry in self._waiting[:going])
        del self._waiting[:going], self._at_us[:going]
        return going
