"""Wakes the one thread that empties a queue, once for each time it waits: a condition would make a lock for each.

`expect` and `ring` are called under the lock of the queue, `wait` without it, after `expect`.
"""

import threading


class Bell:
    """For one thread that waits; any may ring."""

    __slots__ = ("_expected", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._expected = False

    def expect(self) -> None:
        """The calling thread finds nothing to do and is about to wait."""
        self._expected = True

    def ring(self) -> None:
        """There is something, or it is over."""
        if self._expected:
            self._expected = False
            self._lock.release()

    def wait(self) -> None:
        self._lock.acquire()
