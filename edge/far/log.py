"""What the link looked like over time: a line when its state changes, and at most every 200 ms while it does not.

Told by the dispatcher of every look; lines are made and written elsewhere.
"""

from collections.abc import Callable

from edge.far.sight import LinkSight

EVERY_US = 200_000


class LinkLog:
    """Owned by the dispatcher thread; `write` must return at once."""

    def __init__(self, *, write: Callable[[LinkSight], None]) -> None:
        self._write = write
        self._state: tuple[bool, bool, str] | None = None
        self._next_us = 0

    def saw(self, sight: LinkSight, now_us: int) -> None:
        """The link looked like this at `now_us` of a monotonic clock."""
        if sight.state == self._state and now_us < self._next_us:
            return
        self._state = sight.state
        self._next_us = now_us + EVERY_US
        self._write(sight)
