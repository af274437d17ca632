"""Frames waiting for a detector, earliest deadline first.

Sans-IO. `pop` never hands out work whose time is over: what expired is returned apart, so that each
item pushed leaves exactly once, as popped, expired or removed. Equal deadlines leave in the order they came.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Ticket(Generic[T]):
    """One place in the queue; gives its item back once."""

    item: T
    expiry_us: int
    size_bytes: int
    waiting: bool = True


class EdfQueue(Generic[T]):
    """Earliest deadline first; `len` and `size_bytes` count what waits."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Ticket[T]]] = []
        self._pushed = 0
        self._length = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        """Items that wait, in no particular order."""
        return (ticket.item for _, _, ticket in self._heap if ticket.waiting)

    def push(self, item: T, *, expiry_us: int, size_bytes: int) -> Ticket[T]:
        ticket = Ticket(item, expiry_us, size_bytes)
        heapq.heappush(self._heap, (expiry_us, self._pushed, ticket))
        self._pushed += 1
        self._length += 1
        self.size_bytes += size_bytes
        return ticket

    def remove(self, ticket: Ticket[T]) -> bool:
        """Take a waiting item out; False if it has left already."""
        if not ticket.waiting:
            return False
        self._leave(ticket)
        if self._length == 0:
            self._heap.clear()
        return True

    def pop(self, now_us: int) -> tuple[list[T], T | None]:
        """`(expired, next)`: items with `expiry_us <= now_us`, and the one with the earliest deadline left."""
        expired: list[T] = []
        while self._heap:
            ticket = heapq.heappop(self._heap)[2]
            if not ticket.waiting:
                continue
            self._leave(ticket)
            if ticket.expiry_us > now_us:
                return expired, ticket.item
            expired.append(ticket.item)
        return expired, None

    def expired(self, now_us: int) -> list[T]:
        """Take out what expired without taking the next."""
        out: list[T] = []
        while self._heap and (not self._heap[0][2].waiting or self._heap[0][0] <= now_us):
            ticket = heapq.heappop(self._heap)[2]
            if ticket.waiting:
                self._leave(ticket)
                out.append(ticket.item)
        return out

    def ahead_of(self, expiry_us: int) -> int:
        """How many waiting items would run before a new one with this deadline."""
        return sum(1 for expiry, _, ticket in self._heap if ticket.waiting and expiry <= expiry_us)

    def _leave(self, ticket: Ticket[T]) -> None:
        ticket.waiting = False
        self._length -= 1
        self.size_bytes -= ticket.size_bytes
