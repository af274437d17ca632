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

    def acquire(self, timeout_s: float | None = None) -> bool:
        """Wait until called, once; False if nobody called within `timeout_s`."""
        return self._bell.acquire(timeout=-1 if timeout_s is None else timeout_s)

    def call(self) -> None:
        self._bell.release()


class WaitingRoom:
    """The one that came last is called first: its caches are warm. `seats` of those that wait, to be read only."""

    def __init__(self) -> None:
        self.seats: list[Seat] = []

    def __len__(self) -> int:
        return len(self.seats)

    def enter(self, who: int = 0) -> Seat:
        """A seat to acquire, once, after the owner's lock was released."""
        seat = Seat(who)
        self.seats.append(seat)
        return seat

    def leave(self, seat: Seat) -> None:
        """The thread waits no more; it may have been called meanwhile."""
        if seat in self.seats:
            self.seats.remove(seat)

    def lend(self) -> Seat | None:
        """Somebody else does the work of the one that would be called next, who sleeps on and is not called meanwhile:
        `take_back` its seat, or call it. Only where all wait without a timeout."""
        return self.seats.pop() if self.seats else None

    def take_back(self, seat: Seat) -> None:
        self.seats.append(seat)

    def call_one(self) -> None:
        if self.seats:
            self.seats.pop().call()

    def call_all(self) -> None:
        while self.seats:
            self.seats.pop().call()
