"""How long to wait before the next attempt: quick at first, longer after each failure, bounded for ever after.

Sans-IO: chance comes in as `dice`.
"""

from collections.abc import Callable


def _no_chance() -> float:
    return 0.0


class Backoff:
    """Doubles from `first_us` to `most_us`; `reset` after a success.

    Each wait is shorter by up to `jitter` (a share, 0..1) as `dice` (0..1) says, so that those that failed together
    do not all try again at once.
    """

    def __init__(
        self, *, first_us: int, most_us: int, jitter: float = 0.0, dice: Callable[[], float] = _no_chance
    ) -> None:
        self._first_us = first_us
        self._most_us = most_us
        self._jitter = jitter
        self._dice = dice
        self._next_us = first_us

    def next_us(self) -> int:
        wait_us = self._jittered(self._next_us)
        self._next_us = min(self._next_us * 2, self._most_us)
        return wait_us

    def within_us(self, most_us: int) -> int:
        """A wait that is at most `most_us`, after which the next ones are as long as they were going to be."""
        return self._jittered(min(self._next_us, most_us))

    def reset(self) -> None:
        self._next_us = self._first_us

    def _jittered(self, wait_us: int) -> int:
        return round(wait_us * (1 - self._jitter * self._dice()))
