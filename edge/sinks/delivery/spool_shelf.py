"""Where parcels wait: first in, first out, removed from the front only. In memory here, on disk in `spool_file`.

A shelf changes by `commit`, all or nothing; `rows` and `bytes` are what is on it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from edge.sinks.delivery.parcel import Parcel


class Shelf(Protocol):
    """Used under its owner's lock. `commit` and `peek` may raise Retryable: nothing was changed."""

    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...

    def commit(self, *, add: Sequence[Parcel], upto: int, uptime_us: int) -> int:
        """Remove parcels with numbers up to `upto`, then add; how many were removed."""
        ...

    def peek(self, *, after: int, limit: int) -> Sequence[Parcel]:
        """The next `limit` parcels with numbers above `after`, in order."""
        ...

    def close(self, *, uptime_us: int) -> None:
        """Never raises."""
        ...


class MemoryShelf:
    """Gone with the process."""

    def __init__(self) -> None:
        self._parcels: deque[Parcel] = deque()
        self.bytes = 0

    @property
    def rows(self) -> int:
        return len(self._parcels)

    def commit(self, *, add: Sequence[Parcel], upto: int, uptime_us: int) -> int:
        del uptime_us  # a process has only one life
        removed = 0
        while self._parcels and self._parcels[0].number <= upto:
            self.bytes -= self._parcels.popleft().bytes
            removed += 1
        self._parcels.extend(add)
        self.bytes += sum(parcel.bytes for parcel in add)
        return removed

    def peek(self, *, after: int, limit: int) -> Sequence[Parcel]:
        waiting: Iterator[Parcel] = (p for p in self._parcels if p.number > after)
        return list(islice(waiting, limit))

    def close(self, *, uptime_us: int) -> None:
        """Nothing to let go of."""
