"""Bulk batches are opened on a thread of their own, so that unpacking never delays a Pong or a live frame."""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from cloud.backlog.backlog import MOST_GIVING_WAY_S

log = logging.getLogger(__name__)

_LONG = 0.9

S = TypeVar("S")
M = TypeVar("M")


class BulkIntake(Generic[S, M]):
    """`open_batch(sender, batch)` runs on the intake's thread, after `give_way` returned; at most `most` batches wait.
    What came before the end of a `give_way` that took all its time has waited with the first: it is not made to wait
    again. One it fails on is counted by `failed` and hurts no other."""

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
        self._stopping = False
        self._halted = False
        self._queue: queue.Queue[tuple[float, S, M] | None] = queue.Queue(most)
        self.thread = threading.Thread(target=self._run, name="nearfar-bulk", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def offer(self, sender: S, batch: M) -> bool:
        """False when too many wait or it is stopping; the agent sends it again later."""
        if self._stopping:
            return False
        try:
            self._queue.put_nowait((self._clock_s(), sender, batch))
        except queue.Full:
            return False
        return True

    def stop(self, timeout_s: float) -> None:
        """Open what waits, then end the thread."""
        self._stopping = True
        if self.thread.is_alive():
            until_s = time.monotonic() + timeout_s
            with contextlib.suppress(queue.Full):  # stuck: the thread is a daemon and ends with the process
                self._queue.put(None, timeout=timeout_s)
            self.thread.join(max(0.0, until_s - time.monotonic()))

    def halt(self) -> None:
        """Open nothing more after the present one; what waits stays with its agents."""
        self._stopping = self._halted = True
        with contextlib.suppress(queue.Full):  # then there is something to wake up for
            self._queue.put_nowait(None)

    def _run(self) -> None:
        waited_s = 0.0
        while (item := self._queue.get()) is not None and not self._halted:
            came_s, sender, batch = item
            try:
                if came_s >= waited_s:
                    began_s = self._clock_s()
                    self._give_way()
                    if self._clock_s() - began_s > _LONG * MOST_GIVING_WAY_S:
                        waited_s = self._clock_s()
                self._open(sender, batch)
            except Exception:
                self._failed()
                log.exception("a batch could not be opened, and is not acknowledged")
