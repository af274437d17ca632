"""A bounded inbox of a thread that only writes: putting never blocks, and what does not fit is counted."""

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """At most `limit` items wait. Safe to use from several threads; one thread takes."""

    def __init__(self, limit: int) -> None:
        self._changed = threading.Condition()
        self._items: deque[T] = deque()
        self._limit = limit
        self._closed = False
        self.refused = 0

    def put(self, item: T) -> bool:
        """False, and counted in `refused`, when the inbox is full or closed."""
        with self._changed:
            if self._closed or len(self._items) >= self._limit:
                self.refused += 1
                return False
            self._items.append(item)
            self._changed.notify()
            return True

    def take(self, timeout_s: float | None = None) -> list[T] | None:
        """Everything that waits, oldest first, as soon as there is something; [] after `timeout_s`; None
        once the inbox is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._closed, timeout_s)
            if not self._items:
                return None if self._closed else []
            items = list(self._items)
            self._items.clear()
            return items

    def close(self) -> None:
        """Take nothing more in; what waits can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify()
