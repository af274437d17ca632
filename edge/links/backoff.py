"""How long to wait before the next attempt: quick at first, at most 1 s for ever after.

A worker that comes back is then found, greeted and answering within 1.5 s.
"""

FIRST_US = 100_000
MOST_US = 1_000_000


class Backoff:
    """Doubles from 100 ms to 1 s; `reset` after a success."""

    def __init__(self) -> None:
        self._next_us = FIRST_US

    def next_us(self) -> int:
        wait_us = self._next_us
        self._next_us = min(self._next_us * 2, MOST_US)
        return wait_us

    def reset(self) -> None:
        self._next_us = FIRST_US
