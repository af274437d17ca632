"""Which of the links carries the backfill: the best whose bulk lane is up.

Best is: data budget left, then one that answers, if only that it takes no frames of ours, then not metered, then in budget,
then first in the file. A link that is lost is left at once; for a better one the backfill moves when that has been better for
STEADY_US and what is on its way has been acknowledged, so that a move brings nothing up twice. A batch on a link that was
lost may be sent again: the store knows each record by its identity.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from edge.far.sight import LinkSight
from edge.links.base import Link, Sent
from protos.wire.bulk import BulkBatch
from protos.wire.messages import ToWorker
from protos.wire.session import Lane, Limits

STEADY_US = 2_000_000
LEAVE_WITHIN_US = 3_000_000
"""What is not acknowledged this long after the decision to move is not waited for."""


class Reachable(Protocol):
    """The outbox, as far as its way to the cloud concerns it."""

    def reachable(self, *, connected: bool, limits: Limits | None = None) -> None: ...


@dataclass(slots=True)
class _Candidate:
    link: Link
    metered: bool
    limits: Limits | None = None  # of its bulk lane's welcome; None while that lane is down
    sight: LinkSight | None = None
    live_refused: bool = False

    @property
    def usable(self) -> bool:
        return self.limits is not None and not (self.sight is not None and self.sight.budget_spent)

    @property
    def faults(self) -> tuple[bool, bool, bool]:
        """What speaks against it, the gravest first; the smallest is the best."""
        sight = self.sight
        if sight is None:
            return (False, self.metered, True)
        lost = not (sight.connected or self.live_refused)
        return (sight.silent or lost, self.metered, not sight.in_budget)


class BulkWay:
    """`send` and `open_fresh` may be called from any thread, all else from the dispatcher's, which never waits for a link
    that is slow to take a message. `metered`: by name of a link."""

    def __init__(self, links: Sequence[Link], *, metered: Mapping[str, bool], outbox: Reachable) -> None:
        self._candidates = {
            link.name: _Candidate(link=link, metered=metered.get(link.name, False)) for link in links
        }
        self._outbox = outbox
        self._lock = threading.Lock()
        self._current: str | None = None
        self._leaving_us: int | None = None  # since when nothing new goes the present way
        self._better: tuple[str, int] | None = None  # the link that is better, and since when
        self._out: set[int] = set()  # numbers of batches on their way on the present link

    def __repr__(self) -> str:
        return f"<BulkWay over {self._current}, {len(self._out)} batches out>"

    @property
    def current(self) -> str | None:
        """The link that carries the backfill, None while there is none."""
        return self._current

    def send(self, message: ToWorker) -> Sent:
        """Hand `message` to the bulk lane of the present way; FULL for a moment while the backfill moves."""
        with self._lock:
            if self._current is None:
                return Sent.DOWN
            if self._leaving_us is not None:
                return Sent.FULL
            link, out = self._candidates[self._current].link, self._out
            if isinstance(message, BulkBatch):
                # Before it leaves: its acknowledgement may be here before `send` returns.
                out.add(message.batch)
        sent = link.send(message, lane=Lane.BULK)
        if sent is not Sent.ACCEPTED and isinstance(message, BulkBatch):
            with self._lock:
                out.discard(message.batch)
        return sent

    def open_fresh(self) -> None:
        """What was sent is overdue: the connection may be dead without a word, so another is tried beside it."""
        with self._lock:
            link = None if self._current is None else self._candidates[self._current].link
        if link is not None:
            link.open_fresh(Lane.BULK)

    # -- the dispatcher's -----------------------------------------------------------------------------------

    def welcomed(self, link: str, limits: Limits, now_us: int) -> None:
        """A connection of the bulk lane of `link` was welcomed."""
        self._candidates[link].limits = limits
        if link == self._current:
            self._go(link)
        else:
            self._choose(now_us)

    def lost(self, link: str, now_us: int) -> None:
        """The bulk lane of `link` has no connection any more."""
        self._candidates[link].limits = None
        if link == self._current:
            self._choose(now_us)

    def refused(self, link: str, lane: Lane) -> None:
        """Worker and agent do not agree on `lane` of `link`; for frames that says nothing against the way there."""
        if lane is Lane.LIVE:
            self._candidates[link].live_refused = True

    def taken(self, link: str) -> None:
        """Frames go over `link`."""
        self._candidates[link].live_refused = False

    def settled(self, batches: Sequence[int], now_us: int) -> None:
        """These batches are acknowledged, or did not leave after all."""
        with self._lock:
            self._out.difference_update(batches)
        if self._leaving_us is not None:
            self._choose(now_us)

    def look(self, sights: Sequence[LinkSight], now_us: int) -> None:
        """The links look like this."""
        for sight in sights:
            self._candidates[sight.link].sight = sight
        self._choose(now_us)

    # -- inside ---------------------------------------------------------------------------------------------

    def _choose(self, now_us: int) -> None:
        usable = {name: c for name, c in self._candidates.items() if c.usable}
        best = min(usable, key=lambda name: usable[name].faults, default=None)
        present = self._current
        if present is None or self._candidates[present].limits is None:
            if best != present:
                self._go(best)
        elif present not in usable:  # its data budget is spent
            self._leave(best, now_us)
        elif best is None or usable[best].faults >= usable[present].faults:
            self._stay()
        elif self._better is None or self._better[0] != best:
            self._better = (best, now_us)
        elif now_us - self._better[1] >= STEADY_US:
            self._leave(best, now_us)

    def _stay(self) -> None:
        with self._lock:
            self._leaving_us = self._better = None

    def _leave(self, to: str | None, now_us: int) -> None:
        """Send nothing more on the present way; go once what is out is acknowledged."""
        with self._lock:
            if self._leaving_us is None:
                self._leaving_us = now_us
            waits = bool(self._out) and now_us - self._leaving_us < LEAVE_WITHIN_US
        if not waits:
            self._go(to)

    def _go(self, to: str | None) -> None:
        with self._lock:
            self._current = to
            self._leaving_us = self._better = None
            self._out = set()  # a send that is not over yet keeps the old one
        limits = None if to is None else self._candidates[to].limits
        self._outbox.reachable(connected=to is not None, limits=limits)
