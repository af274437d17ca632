"""Trackers of all streams on a thread of their own: small copies of pictures kept, answers carried forward on order.

Neither the dispatcher's thread, which every deadline waits for, nor near's, which is stuck just when a tracked answer
is needed. Orders are done in their order; pictures of a stream are skipped, counted, while too many of it wait or when
the tracker cannot look at them, which is said once per stream.
"""

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from edge.scheduling.key import Key
from pipelines.errors import Rejected
from pipelines.frame import Frame
from pipelines.log_throttle import LogThrottle
from pipelines.trackers.base import Base, Carried, Tracker

log = logging.getLogger(__name__)

PICTURES_WAITING = 16
"""Of one stream: references to whole pictures, so memory stays small whatever happens, and a quick stream takes no
place from a slow one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrackRun:
    """What came of an order; `carried` None: nothing could be carried forward. `took_us` from the order on, ready at
    `ready_us`."""

    key: Key
    carried: Carried | None
    ready_us: int
    took_us: int


class TrackCounts(NamedTuple):
    """Orders done, those of them where nothing could be carried forward, and pictures skipped: in a hurry, or because
    the tracker cannot look at them."""

    runs: int
    lost: int
    skipped: int


class TrackRunner:
    """`see`, `rebase` and `carry` are called by the dispatcher thread and return at once; `done` from the thread here,
    once for every `carry`."""

    def __init__(
        self,
        trackers: Mapping[str, Tracker],
        *,
        done: Callable[[TrackRun], None],
        clock_us: Callable[[], int],
    ) -> None:
        self._trackers = trackers
        self._done = done
        self._clock_us = clock_us
        self._trouble = LogThrottle(log, clock_us=clock_us)
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._put = dict.fromkeys(trackers, 0)  # by the dispatcher
        self._taken = dict.fromkeys(trackers, 0)  # by the thread here
        self._rejected: set[str] = set()
        self._runs = self._lost = self._skipped = self._unseen = 0
        self._thread = threading.Thread(target=self._run, name="tracker", daemon=True)

    @property
    def counts(self) -> TrackCounts:
        """So far; from any thread."""
        return TrackCounts(self._runs, self._lost, self._skipped + self._unseen)

    def start(self) -> None:
        self._thread.start()

    def see(self, frame: Frame, *, oldest: int) -> None:
        """A frame was accepted; `oldest` is the seq of the first one of its stream that is not answered yet."""
        if self._put[frame.stream] - self._taken[frame.stream] >= PICTURES_WAITING:
            self._skipped += 1
            return
        self._put[frame.stream] += 1
        self._orders.put(lambda: self._see(frame, oldest))

    def rebase(self, stream: str, base: Base) -> None:
        """A detector said something of a frame."""
        tracker = self._trackers.get(stream)
        if tracker is not None:
            self._orders.put(lambda: tracker.rebase(base))

    def carry(self, key: Key) -> None:
        """Carry the best earlier answer forward to this frame."""
        ordered_us = self._clock_us()
        self._orders.put(lambda: self._carry(key, ordered_us))

    def close(self, timeout_s: float = 1.0) -> None:
        self._orders.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    # -- the thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                order()
            except Exception as error:  # noqa: BLE001 - said with its traceback
                self._trouble.failed("tracker", "failed at one order", error=error)

    def _see(self, frame: Frame, oldest: int) -> None:
        self._taken[frame.stream] += 1
        tracker = self._trackers[frame.stream]
        try:
            tracker.see(frame.seq, frame.picture, captured_us=frame.captured_us, oldest=oldest)
        except Rejected as error:
            self._unseen += 1
            if frame.stream not in self._rejected:
                self._rejected.add(frame.stream)
                log.warning("stream %s: nothing can be tracked: %s", frame.stream, error)

    def _carry(self, key: Key, ordered_us: int) -> None:
        carried: Carried | None = None
        try:
            carried = self._trackers[key[0]].carry(key[1])
        except Exception as error:  # noqa: BLE001 - said with its traceback
            self._trouble.failed(f"tracker of {key[0]}", f"failed at {key[1]}", error=error)
        else:
            self._trouble.worked(f"tracker of {key[0]}")
        self._runs += 1
        self._lost += carried is None
        ready_us = self._clock_us()
        self._done(TrackRun(key=key, carried=carried, ready_us=ready_us, took_us=ready_us - ordered_us))
