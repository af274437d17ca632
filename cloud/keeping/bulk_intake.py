"""Bulk batches are opened on a thread of their own, so that unpacking never delays a Pong or a live frame.

waiting      one queue a sender, served in turn: a gateway with hours to tell holds up none with a minute
room         `most` in all, of which a sender has no more than its part among those who wait now; one that has nothing
             waiting is taken all the same, up to `most` more: every gateway gets on, however many there are
"""

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

from cloud.backlog.front import MOST_GIVING_WAY_S
from pipelines.log_throttle import LogThrottle

log = logging.getLogger(__name__)

_LONG = 0.9

S = TypeVar("S")
M = TypeVar("M")


class BulkIntake(Generic[S, M]):
    """`open_batch(sender, batch)` runs on the intake's thread, after `give_way` returned. What came before the end of a
    `give_way` that took all its time has waited with the first: it is not made to wait again. One it fails on is counted
    by `failed` and hurts no other. Senders are told apart by their hash."""

    def __init__(
        self,
        open_batch: Callable[[S, M], None],
        *,
        give_way: Callable[[], None],
        failed: Callable[[], None],
        most: int = 16,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock_s = clock_s
        self._open = open_batch
        self._give_way = give_way
        self._failed = failed
        self._trouble = LogThrottle(log)
        self._most = most
        self._news = threading.Condition()
        self._stopping = False  # takes nothing more
        self._halted = False  # opens nothing more either
        self._waiting: OrderedDict[S, deque[tuple[float, M]]] = OrderedDict()  # the next to be served first
        self._count = 0
        self.thread = threading.Thread(target=self._run, name="nearfar-bulk", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def offer(self, sender: S, batch: M) -> bool:
        """False when too many wait or it is stopping; the agent sends it again later."""
        with self._news:
            if self._stopping or not self._has_room(sender):
                return False
            self._waiting.setdefault(sender, deque()).append((self._clock_s(), batch))
            self._count += 1
            self._news.notify()
            return True

    def stop(self, timeout_s: float) -> None:
        """Open what waits, then end the thread; one that is stuck is a daemon and ends with the process."""
        with self._news:
            self._stopping = True
            self._news.notify()
        if self.thread.is_alive():
            self.thread.join(timeout_s)

    def halt(self) -> None:
        """Open nothing more after the present one; what waits stays with its agents."""
        with self._news:
            self._stopping = self._halted = True
            self._news.notify()

    def _has_room(self, sender: S) -> bool:
        mine = len(self._waiting.get(sender, ()))
        if mine == 0:
            return self._count < 2 * self._most
        return self._count < self._most and mine < max(1, self._most // len(self._waiting))

    def _next(self) -> tuple[float, S, M] | None:
        """The first of whose turn it is; None at the end."""
        with self._news:
            while not (self._waiting or self._stopping):
                self._news.wait()
            if self._halted or not self._waiting:
                return None
            sender, batches = self._waiting.popitem(last=False)
            came_s, batch = batches.popleft()
            if batches:
                self._waiting[sender] = batches
            self._count -= 1
            return came_s, sender, batch

    def _run(self) -> None:
        waited_s = 0.0
        while (item := self._next()) is not None:
            came_s, sender, batch = item
            try:
                if came_s >= waited_s:
                    began_s = self._clock_s()
                    self._give_way()
                    if self._clock_s() - began_s > _LONG * MOST_GIVING_WAY_S:
                        waited_s = self._clock_s()
                self._open(sender, batch)
            except Exception as error:  # noqa: BLE001 - said with its traceback
                self._failed()
                self._trouble.failed(
                    "the backfill", "could not be opened, a batch is not acknowledged", error=error
                )
            else:
                self._trouble.worked("the backfill")
