"""The lookout over one link: sees how it does, for whoever is told: run directory, people, outbox, scheduler.

Looks every LOOK_EVERY_US, and at once when its state changes. Owned by the dispatcher thread.
"""

from edge.far.log import LinkLog
from edge.far.port import FarPort
from edge.far.sight import LinkSight

LOOK_EVERY_US = 50_000


class Lookout:
    """`sight` is the link as it was seen last, None before the first look; any thread may read it."""

    def __init__(self, far: FarPort, *, link_log: LinkLog | None) -> None:
        self._far = far
        self._link_log = link_log
        self._next_look_us = 0
        self.sight: LinkSight | None = None

    def turn(self, now_us: int, *, at_once: bool = False) -> bool:
        """Look, if it is time or something changed or `at_once`; whether it did."""
        changed = self.sight is None or self._far.state != self.sight.state
        if now_us < self._next_look_us and not changed and not at_once:
            return False
        self._next_look_us = now_us + LOOK_EVERY_US
        self.sight = sight = self._far.sight(now_us)
        if self._link_log is not None:
            self._link_log.saw(sight, now_us)
        return True
