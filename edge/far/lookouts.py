"""All lookouts of an agent: what is said of each link depends on the others, and the backfill goes the best way.

The outbox is told how the link does that carries its backfill, each link's data budget of what was sent over it.
Owned by the dispatcher thread.
"""

from collections.abc import Callable, Sequence

from edge.far.budget_book import BudgetBook
from edge.far.bulk_way import BulkWay
from edge.far.log import LinkLog
from edge.far.lookout import Lookout
from edge.far.port import FarPort
from edge.far.sight import LinkSight
from edge.far.words import LinkWords
from edge.outbox.port import Outbox
from edge.scheduling.scheduler import Scheduler


class Lookouts:
    """`sights` are the links as they were seen last, in the order of the file, empty before the first look; any thread
    may read them. `write_link` takes a line for the log, None = nobody keeps one. `near`: whether frames are answered
    without any link; `book` keeps what is used of data budgets."""

    def __init__(
        self,
        ports: Sequence[FarPort],
        *,
        bulk: BulkWay,
        scheduler: Scheduler,
        outbox: Outbox,
        write_link: Callable[[LinkSight], None] | None,
        near: bool,
        book: BudgetBook | None = None,
    ) -> None:
        self._book = book
        self._bulk = bulk
        self._scheduler = scheduler
        self._outbox = outbox
        self._lookouts = [
            Lookout(port, link_log=None if write_link is None else LinkLog(write=write_link))
            for port in ports
        ]
        self._ports = ports
        self._words = {port.name: LinkWords(near=near) for port in ports}
        self.sights: Sequence[LinkSight] = ()

    def turn(self, now_us: int, *, at_once: bool = False) -> None:
        """Look where it is time or something changed, or everywhere `at_once`."""
        looked = [lookout.turn(now_us, at_once=at_once) for lookout in self._lookouts]
        if not any(looked):
            return
        self.sights = sights = tuple(s for lookout in self._lookouts if (s := lookout.sight) is not None)
        for sight in sights:
            others = [other.link for other in sights if other.offloads and other is not sight]
            self._words[sight.link].saw(sight, now_us, carried_by=others)
        self._bulk.look(sights, now_us)
        for sight in sights:
            self._charge(sight, now_us)
        if self._book is not None:
            self._book.look(now_us)
        for sight in sights:
            if sight.link == self._bulk.current:
                offloaded, far = self._ports[0].sent_and_given
                self._outbox.observe_live(
                    in_flight_bytes=sight.in_flight_bytes,
                    over_budget=not sight.in_budget,
                    bytes_per_s=sight.bytes_per_us * 1e6,
                    queueing_us=sight.queueing_us,
                    rtt_us=sight.rtt_min_us,
                    offloaded=offloaded,
                    far=far,
                )

    def _charge(self, sight: LinkSight, now_us: int) -> None:
        """Whatever went over the link and was not charged when it was decided: backfill, cancellations, greetings,
        pings of connections, what was sent again. Compared as sums, so that nothing is charged twice."""
        owed_bytes = sight.sent_bytes - self._scheduler.ways[sight.link].budget.spent_bytes
        if owed_bytes > 0:
            self._scheduler.spent(sight.link, owed_bytes, now_us)
