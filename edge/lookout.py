"""The lookout: looks at the link about every 50 ms, and at once when its state changes, and tells whoever must know.

The log of the run, the outbox, which paces itself by it, and the scheduler, whose data budget covers backfill too.
"""

from edge.far_port import FarPort
from edge.link_log import LinkLog
from edge.link_sight import LinkSight
from edge.outbox.port import Outbox
from edge.scheduling.scheduler import Scheduler

LOOK_EVERY_US = 50_000


class Lookout:
    """Owned by the dispatcher thread; `sight`, the link as it was seen last, may be read by any."""

    def __init__(
        self, far: FarPort, *, scheduler: Scheduler, outbox: Outbox, link_log: LinkLog | None
    ) -> None:
        self._far = far
        self._scheduler = scheduler
        self._outbox = outbox
        self._link_log = link_log
        self._next_us = 0
        self._backfill_bytes = 0  # of which the scheduler knows
        self.sight: LinkSight | None = None

    def look(self, now_us: int) -> None:
        """Called after every turn; most calls only compare the state."""
        changed = self.sight is None or self._far.state != self.sight.state
        if now_us < self._next_us and not changed:
            return
        self._next_us = now_us + LOOK_EVERY_US
        self.sight = sight = self._far.sight(now_us)
        if self._link_log is not None:
            self._link_log.saw(sight, now_us)
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
