"""Brings what waits in a spool to its receiver, oldest first, at least once, for as long as it takes.

A receiver that fails is tried again after a growing wait, of random length so that a fleet does not come back all at
once, or after the time it asked for. What it will never take is isolated by halves, so that one bad parcel costs only
itself, and is said once for each reason, then as a count; so is one at which the receiver goes away each time. Nothing that spool or courier raise ends the thread; one that
ended all the same is started anew by `wake`.
"""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from edge.backoff import Backoff
from edge.sinks.delivery.courier import Courier, NeverError, NotNowError
from edge.sinks.delivery.parcel import Parcel
from edge.sinks.delivery.refusals import Refusals
from edge.sinks.delivery.spool import Spool
from edge.sinks.delivery.suspicion import Suspicion
from pipelines.runtime import monotonic_us

log = logging.getLogger(__name__)

FIRST_WAIT_US = 500_000
MOST_WAIT_US = 60_000_000
MOST_ASKED_US = 600_000_000
BATCH_BYTES = 1 << 20
FAREWELL_US = 300_000
WENT_AWAY = "went_away"
"""Why a parcel is refused at which the receiver, which was there, ended the connection or said no more."""
_JITTER = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PostSight:
    """`failing` is empty while deliveries succeed, else what the receiver said; `failing_us`: for how long.
    `again_us`: how long its sender is waiting now before it tries again, 0 while it is not.
    `retries` are attempts after a failure, `restarts` threads that died and were replaced."""

    failing: str
    failing_us: int
    again_us: int = 0
    retries: int
    restarts: int


class Postman:
    """Owns `courier` and the thread it works in. `batch` is the most parcels of one delivery."""

    def __init__(
        self,
        spool: Spool,
        courier: Courier,
        *,
        name: str,
        batch: int,
        clock_us: Callable[[], int] = monotonic_us,
        backoff: Backoff | None = None,
    ) -> None:
        self._spool = spool
        self._courier = courier
        self.name = name
        self._batch = self._limit = batch
        self._again = 0
        self._clock_us = clock_us
        self._backoff = backoff or Backoff(
            first_us=FIRST_WAIT_US, most_us=MOST_WAIT_US, jitter=_JITTER, dice=random.random
        )
        self._changed = threading.Condition()
        self._woken = False
        self._end_us: int | None = None
        self._thread: threading.Thread | None = None
        self._failing = ""
        self._failing_since_us = 0
        self._again_us = 0
        self._retries = 0
        self._restarts = 0
        self._refusals = Refusals(name)
        self._suspicion = Suspicion()

    def wake(self) -> None:
        """Something waits. Starts the thread if there is none."""
        with self._changed:
            self._woken = True
            self._changed.notify()
            if self._thread is not None and not self._thread.is_alive() and self._end_us is None:
                self._restarts += 1
                log.error("sink %s: its sender died and is started anew", self.name)
                self._thread = None
            if self._thread is None and self._end_us is None:
                self._thread = threading.Thread(target=self._run, name=f"post-{self.name}", daemon=True)
                self._thread.start()

    @property
    def failing(self) -> str:
        """What the receiver said last, empty while it takes what it is given."""
        return self._failing

    def sight(self) -> PostSight:
        failing = self._failing
        with self._changed:  # given up by who waits, so seen only while it does
            again_us = self._again_us
        return PostSight(
            failing=failing,
            again_us=again_us,
            failing_us=self._clock_us() - self._failing_since_us if failing else 0,
            retries=self._retries,
            restarts=self._restarts,
        )

    def close(self, within_us: int = FAREWELL_US) -> bool:
        """Deliver what waits as far as it goes in `within_us`, then end; False if the thread still hangs."""
        with self._changed:
            self._end_us = self._clock_us() + within_us
            self._changed.notify()
            thread = self._thread
        if thread is None:
            self._courier.close()
            return True
        thread.join(within_us / 1e6)
        if thread.is_alive():
            self._courier.interrupt()
            thread.join(FAREWELL_US / 1e6)
        return not thread.is_alive()

    # -- the thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._goes_on(self._turn()):
                pass
        finally:
            self._courier.close()
            self._refusals.end()

    def _goes_on(self, wait_us: int | None) -> bool:
        with self._changed:
            if self._end_us is not None and (wait_us != 0 or self._clock_us() >= self._end_us):
                return False
            # A failure waits its time out; being idle ends as soon as something comes.
            if wait_us != 0:
                self._again_us = (wait_us or 0) if self._failing else 0
                self._changed.wait_for(
                    lambda: self._end_us is not None or (self._woken and not self._failing),
                    None if wait_us is None else wait_us / 1e6,
                )
            self._again_us = 0
            self._woken = False
            return True

    def _turn(self) -> int | None:
        """One delivery; how long to wait before the next: 0 = not at all, None = until something comes."""
        parcels: list[Parcel] = []
        try:
            # After a failure the same parcels again: a receiver that did take them knows the batch by its key.
            parcels = self._spool.peek(limit=self._again or self._limit, max_bytes=BATCH_BYTES)
            if parcels:
                self._deliver(parcels)
                again_us: int | None = 0
            else:
                again_us = self._courier.tend()
                self._good()
        except NotNowError as error:
            if error.at_these and self._gives_up(parcels, error):
                return 0
            self._again = 1 if error.at_these else len(parcels)
            at_most_us = self._suspicion.wait_at_most_us if error.at_these and len(parcels) == 1 else None
            return self._bad(str(error), after_us=error.after_us, at_most_us=at_most_us)
        except Exception as error:  # noqa: BLE001 - a bug in a courier must not end the sink
            self._again = len(parcels)
            return self._bad(f"{type(error).__name__}: {error}")
        return again_us

    def _deliver(self, parcels: list[Parcel]) -> None:
        try:
            taken = self._courier.deliver(parcels)
        except NeverError as error:
            self._again = 0
            if len(parcels) > 1:  # one of them is bad; which one shows when they come in smaller batches
                self._limit = (len(parcels) + 1) // 2
            else:
                self._refusals.add(parcels[0].id, error)
                self._spool.settle(parcels, refused=error.reason)
            return
        self._spool.settle(parcels[:taken])
        self._again = 0
        self._limit = min(self._limit * 2, self._batch)
        if taken:
            self._suspicion.clear()
        self._good()

    def _gives_up(self, parcels: list[Parcel], error: NotNowError) -> bool:
        """Whether it is put down to the parcel, which then is settled as refused."""
        if len(parcels) != 1 or not self._suspicion.falls_on(parcels[0].number):
            return False
        words = f"{error}, {self._suspicion.attempts} times at this answer alone"
        self._refusals.add(parcels[0].id, NeverError(words, reason=WENT_AWAY))
        self._spool.settle(parcels, refused=WENT_AWAY)
        self._again = 0
        self._limit = 1
        return True

    def _good(self) -> None:
        if self._failing:
            log.warning("sink %s: delivers again", self.name)
        self._failing = ""
        self._backoff.reset()

    def _bad(self, words: str, *, after_us: int = 0, at_most_us: int | None = None) -> int:
        """How long to wait now; with `at_most_us` the waits do not grow."""
        if self._end_us is not None and self._failing:
            words = self._failing  # what it said before it was interrupted tells more
        if words != self._failing:
            log.warning("sink %s: %s", self.name, words)
        if not self._failing:
            self._failing_since_us = self._clock_us()
        self._failing = words
        self._retries += 1
        wait_us = self._backoff.next_us() if at_most_us is None else self._backoff.within_us(at_most_us)
        return max(1, min(after_us, MOST_ASKED_US), wait_us)
