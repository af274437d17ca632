"""Threads with nothing to do, each behind a bell of its own, so that work wakes exactly one of them.

Not thread-safe: `enter` and the two ways to ring are called under the lock of whoever owns the work; the thread
then waits outside of it, by acquiring its bell.
"""

from threading import Lock


class WaitingRoom:
    """The one that came last is called first: its caches are warm. `bells` of those that wait, to be read only."""

    def __init__(self) -> None:
        self.bells: list[Lock] = []

    def __len__(self) -> int:
        return len(self.bells)

    def enter(self) -> Lock:
        """A bell to acquire, once, after the owner's lock was released."""
        bell = Lock()
        bell.acquire()
        self.bells.append(bell)
        return bell

    def leave(self, bell: Lock) -> None:
        """The thread waits no more; it may have been called meanwhile."""
        if bell in self.bells:
            self.bells.remove(bell)

    def call_one(self) -> None:
        if self.bells:
            self.bells.pop().release()

    def call_all(self) -> None:
        while self.bells:
            self.bells.pop().release()
