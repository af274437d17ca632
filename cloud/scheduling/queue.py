"""Frames of one agent waiting for a detector, earliest deadline first.

Sans-IO. `pop` never hands out work whose time is over: what expired is returned apart, so that each
item pushed leaves exactly once, as popped, expired or removed, and leaves nothing behind. Equal deadlines leave
in the order they came.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Ticket(Generic[T]):
    """One place in the queue; gives its item back once. `charged_us`: what its agent paid when it left to be run, until
    that is settled; `era`: of the accounts it was paid from."""

    item: T
    expiry_us: int
    size_bytes: int
    agent: str = ""
    waiting: bool = True
    number: int = 0
    charged_us: int | None = None
    era: int = 0


class EdfQueue(Generic[T]):
    """Earliest deadline first; `len` and `size_bytes` count what waits. `rows`: what waits, to be read only."""

    __slots__ = ("_pushed", "rows", "size_bytes")

    def __init__(self) -> None:
        # Latest deadline first, so that the next to leave is at the end. One search a move, and no heap that would
        # keep what was removed until its turn comes.
        self.rows: list[tuple[int, int, Ticket[T]]] = []
        self._pushed = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[T]:
        """Items that wait, in no particular order."""
        return (ticket.item for _, _, ticket in self.rows)

    @property
    def next_expiry_us(self) -> int:
        """The earliest deadline; the queue must not be empty."""
        return -self.rows[-1][0]

    def push(self, item: T, *, expiry_us: int, size_bytes: int, agent: str = "") -> Ticket[T]:
        self._pushed += 1
        ticket = Ticket(item, expiry_us, size_bytes, agent, number=self._pushed)
        insort(self.rows, (-expiry_us, -self._pushed, ticket))
        self.size_bytes += size_bytes
        return ticket

    def remove(self, ticket: Ticket[T]) -> bool:
        """Take a waiting item out; False if it has left already."""
        if not ticket.waiting:
            return False
        at = bisect_left(self.rows, (-ticket.expiry_us, -ticket.number))
        self._left(self.rows.pop(at)[2])
        return True

    def pop(self, now_us: int) -> tuple[list[T], T | None]:
        """`(expired, next)`: items with `expiry_us <= now_us`, and the one with the earliest deadline left."""
        expired = self.expired(now_us)
        return expired, self.pop_ticket().item if self.rows else None

    def pop_ticket(self) -> Ticket[T]:
        """The place of the most urgent item, expired or not; the queue must not be empty."""
        return self._left(self.rows.pop()[2])

    def expired(self, now_us: int) -> list[T]:
        """Take out what expired without taking the next."""
        out: list[T] = []
        while self.rows and -self.rows[-1][0] <= now_us:
            out.append(self.pop_ticket().item)
        return out

    def ahead_of(self, expiry_us: int) -> int:
        """How many waiting items would run before a new one with this deadline."""
        return len(self.rows) - bisect_left(self.rows, (-expiry_us,))

    def _left(self, ticket: Ticket[T]) -> Ticket[T]:
        ticket.waiting = False
        self.size_bytes -= ticket.size_bytes
        return ticket
