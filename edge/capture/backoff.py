"""How long to wait before a camera is opened anew: half a second at first, never more than five."""

from collections.abc import Callable

FIRST_US = 500_000
MOST_US = 5_000_000
JITTER = 0.25


class Backoff:
    """Doubles from 0.5 s to 5 s, up to a quarter less by `dice` (0..1), so that cameras behind one switch are not
    all opened at once; `reset` after a picture."""

    def __init__(self, dice: Callable[[], float]) -> None:
        self._dice = dice
        self._next_us = FIRST_US

    def next_us(self) -> int:
        wait_us = self._next_us
        self._next_us = min(self._next_us * 2, MOST_US)
        return round(wait_us * (1 - JITTER * self._dice()))

    def reset(self) -> None:
        self._next_us = FIRST_US
