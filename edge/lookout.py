"""The lookout: sees how the link does, for whoever is told: run directory, people, outbox, scheduler.

Looks every LOOK_EVERY_US, and at once when its state changes. Owned by the dispatcher thread.
"""

from edge.far_port import FarPort
from edge.link_log import LinkLog
from edge.link_sight import LinkSight
from edge.link_words import LinkWords
from edge.outbox.port import Outbox
from edge.scheduling.scheduler import Scheduler

LOOK_EVERY_US = 50_000


class Lookout:
    """`sight` is the link as it was seen last, None before the first look; any thread may read it."""

    def __init__(
        self,
        far: FarPort,
        *,
        scheduler: Scheduler,
        outbox: Outbox,
        link_log: LinkLog | None,
        link_words: LinkWords,
    ) -> None:
        self._far = far
        self._scheduler = scheduler
        self._outbox = outbox
        self._link_log = link_log
        self._link_words = link_words
        self._next_look_us = 0
        self._backfill_bytes = 0  # of which the scheduler's data budget knows
        self.sight: LinkSight | None = None

    def turn(self, now_us: int) -> None:
        """Look, if it is time or something changed."""
        changed = self.sight is None or self._far.state != self.sight.state
        if now_us < self._next_look_us and not changed:
            return
        self._next_look_us = now_us + LOOK_EVERY_US
        self.sight = sight = self._far.sight(now_us)
        if self._link_log is not None:
            self._link_log.saw(sight, now_us)
        self._link_words.saw(sight, now_us)
        self._charge(sight.link, now_us)
        self._outbox.observe_live(
            in_flight_bytes=sight.in_flight_bytes,
            over_budget=not sight.in_budget,
            bytes_per_s=sight.bytes_per_us * 1e6,
            queueing_us=sight.queueing_us,
        )

    def _charge(self, link: str, now_us: int) -> None:
        sent_bytes = self._outbox.stats().bytes_sent
        if sent_bytes != self._backfill_bytes:
            self._scheduler.spent(link, sent_bytes - self._backfill_bytes, now_us)
            self._backfill_bytes = sent_bytes
