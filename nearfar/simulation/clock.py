"""Virtual time: events in the order of their moment, and of their making where that is equal. Never runs back."""

import heapq
from collections.abc import Callable


class Clock:
    def __init__(self, now_us: int = 0) -> None:
        self.now_us = now_us
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._made = 0

    def at(self, when_us: int, what: Callable[[], None]) -> None:
        """Call `what` at `when_us`, or now if that is past."""
        self._made += 1
        heapq.heappush(self._events, (max(when_us, self.now_us), self._made, what))

    def next_us(self) -> int | None:
        """When the next event is due."""
        return self._events[0][0] if self._events else None

    def advance(self, to_us: int) -> None:
        if to_us < self.now_us:
            raise ValueError(f"time would run back from {self.now_us} to {to_us} µs")
        self.now_us = to_us

    def run_due(self) -> bool:
        """The first event that is due by now, if any."""
        if not self._events or self._events[0][0] > self.now_us:
            return False
        heapq.heappop(self._events)[2]()
        return True
