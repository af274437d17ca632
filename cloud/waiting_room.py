"""Threads with nothing to do, each behind a bell of its own, so that work wakes exactly one of them.

Not thread-safe: all but `Seat.acquire` is called under the lock of whoever owns the work; the thread then waits
outside of it, by acquiring its seat.
"""

from threading import Lock


class Seat:
    """Where one thread waits. `who` is its number; `mend`: it is called because what it works with broke."""

    __slots__ = ("_bell", "mend", "who")

    def __init__(self, who: int) -> None:
        self.who = who
        self.mend = False
        self._bell = Lock()
        self._bell.acquire()

    def acquire(self) -> None:
        """Wait until called, once."""
        self._bell.acquire()

    def call(self) -> None:
        self._bell.release()


class WaitingRoom:
    """The one that came last is called first: its caches are warm."""

    def __init__(self) -> None:
        self._seats: list[Seat] = []

    def __len__(self) -> int:
        return len(self._seats)

    def enter(self, who: int = 0) -> Seat:
        """A seat to acquire, once, after the owner's lock was released."""
        seat = Seat(who)
        self._seats.append(seat)
        return seat

    def lend(self) -> Seat | None:
        """Somebody else does the work of the one that would be called next, who sleeps on and is not called meanwhile:
        `take_back` its seat, or call it."""
        return self._seats.pop() if self._seats else None

    def take_back(self, seat: Seat) -> None:
        self._seats.append(seat)

    def call_one(self) -> None:
        if self._seats:
            self._seats.pop().call()

    def call_all(self) -> None:
        while self._seats:
            self._seats.pop().call()
