"""When a lane tries again: quick at first, then doubling up to a cap, each wait ±20 % so that gateways spread out.

Sans-IO. Waits count from the start of the failed attempt, so an attempt that hung is its own wait.
"""

import random
from collections.abc import Callable

QUICK_US = 20_000
FIRST_US = 100_000
SETTLED_US = 1_000_000  # a connection welcomed for this long was sound: its loss is retried quickly
JITTER = 0.2


class Backoff:
    """The waits of one lane between attempts, in µs, never more than `cap_us`."""

    def __init__(self, *, cap_us: int, dice: Callable[[], float] = random.random) -> None:
        self._cap_us = cap_us
        self._dice = dice
        self._next_us = FIRST_US

    def failed(self) -> int:
        """The wait after an attempt that was never welcomed."""
        wait_us = self._next_us
        self._next_us = min(self._cap_us, 2 * self._next_us)
        return self._spread(wait_us)

    def lost(self, lived_us: int) -> int:
        """The wait after a connection that was welcomed `lived_us` ago is gone."""
        if lived_us < SETTLED_US:  # a worker that welcomes and hangs up must not be hammered
            return self._spread(FIRST_US)
        self._next_us = FIRST_US
        return self._spread(QUICK_US)

    def welcomed(self) -> None:
        self._next_us = FIRST_US

    def _spread(self, wait_us: int) -> int:
        return min(self._cap_us, int(wait_us * (1 + JITTER * (2 * self._dice() - 1))))
