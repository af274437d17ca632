"""A thread that writes what is submitted to it, in groups, and acknowledges what is durable.

Nothing is acknowledged before `_commit` returned. Whoever submits never waits: what waits is bounded, and what finds no
room is counted. While the store refuses for now, the group at hand is tried again, ever later, until it is written or
the writer is halted. One item that breaks a group holds up no other: the group is divided until it stands alone.
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

_RETRY_US = 200_000
_RETRY_MAX_US = 2_000_000

T = TypeVar("T")


class GroupWriter(ABC, Generic[T]):
    """`trouble` is why it cannot write, empty while it can; `dropped` counts what was given up unacknowledged.

    `name` of its thread; `what` and `meanwhile` are what the log says of trouble. At most `most` waits or is written, as
    `weigh` has it; `dropped` is what `count` has. `at_once` items are committed together, at most every `every_us` of
    `clock_us`. `passing`: errors that may pass.
    """

    def __init__(
        self,
        *,
        name: str,
        what: str,
        meanwhile: str,
        weigh: Callable[[T], int],
        count: Callable[[T], int],
        most: int,
        at_once: int,
        acknowledge: Callable[[Sequence[T]], None],
        passing: tuple[type[Exception], ...],
        every_us: int = 0,
        clock_us: Callable[[], int] = lambda: 0,
    ) -> None:
        self._what = what
        self._meanwhile = meanwhile
        self._weigh = weigh
        self._count = count
        self._most = most
        self._at_once = at_once
        self._acknowledge = acknowledge
        self._passing = passing
        self._every_us = every_us
        self._clock_us = clock_us
        self._changed = threading.Condition()
        self._waiting: list[T] = []
        self._weight = 0
        self._writing = 0
        self._stopping = False
        self._flush = False
        self._idle = False
        self.trouble = ""
        self.dropped = 0
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    @property
    def pending(self) -> int:
        """Items submitted and not yet written."""
        with self._changed:
            return len(self._waiting) + self._writing

    def flush(self, timeout_us: int) -> bool:
        """Wait until nothing is pending; False if the time was not enough."""
        with self._changed:
            self._flush = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._waiting and not self._writing, timeout_us / 1e6)
            self._flush = False
            return done

    def halt(self) -> None:
        """Write nothing more after the present group."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    # -- what a writer of its kind says -------------------------------------------------------------------

    @abstractmethod
    def _commit(self, group: Sequence[T]) -> None:
        """Make all of it durable, or nothing."""

    @abstractmethod
    def _refused(self, item: T, error: Exception) -> list[T]:
        """What may be acknowledged, changed perhaps, of one that cannot be committed."""

    def _gap_us(self) -> int:
        """From one commit to the next, at least; asked again whenever something was said to have changed."""
        return self._every_us

    def _took(self, us: int) -> None:
        """A group was written and acknowledged in this time."""

    # -- inside -------------------------------------------------------------------------------------------

    def _put(self, item: T) -> bool:
        """From any thread; False when it is dropped because too much waits already."""
        weight = self._weigh(item)
        with self._changed:
            if self._stopping or self._weight + weight > self._most:
                self._drop(item)
                return False
            self._waiting.append(item)
            self._weight += weight
            if self._idle:  # else it looks by itself when the time between two commits is over
                self._changed.notify_all()
            return True

    def _drop(self, *items: T) -> None:
        with self._changed:
            self.dropped += sum(map(self._count, items))

    def _run(self) -> None:
        last_us = self._clock_us() - self._gap_us()
        while group := self._take(last_us):
            last_us = self._clock_us()
            stored = self._write(group)
            if stored:
                try:
                    self._acknowledge(stored)
                except Exception:  # whoever waits for word asks again; the writer must live
                    log.exception("acknowledging %d commits failed", len(stored))
            self._took(self._clock_us() - last_us)
            with self._changed:
                self._writing = 0
                self._weight -= sum(map(self._weigh, group))
                del group, stored  # nothing is held of what was written while nothing comes
                self._changed.notify_all()

    def _take(self, last_us: int) -> list[T]:
        """The next group, empty once halted: the first after a pause goes at once, the rest in groups."""
        with self._changed:
            # First the pause, so that what comes meanwhile wakes nobody.
            while not (self._stopping or self._flush):
                wait_us = last_us + self._gap_us() - self._clock_us()
                if wait_us <= 0:
                    break
                self._changed.wait(wait_us / 1e6)
            self._idle = True
            self._changed.wait_for(lambda: self._waiting or self._stopping)
            self._idle = False
            if self._stopping:
                self._drop(*self._waiting)
                self._waiting = []
                return []
            group, self._waiting = self._waiting[: self._at_once], self._waiting[self._at_once :]
            self._writing = len(group)
            return group

    def _write(self, group: Sequence[T]) -> list[T]:
        """What of it may be acknowledged."""
        try:
            if self._committed(group):
                return list(group)
        except Exception as error:  # noqa: BLE001 - whatever one value provokes, the writer must live
            if len(group) == 1:
                return self._refused(group[0], error)
            middle = len(group) // 2
            return self._write(group[:middle]) + self._write(group[middle:])
        self._drop(*group)
        return []

    def _committed(self, group: Sequence[T]) -> bool:
        """Try until it is; False if the writer was halted before."""
        delay_us = _RETRY_US
        while True:
            try:
                self._commit(group)
            except self._passing as error:
                if not self.trouble:
                    log.warning("%s; %s", error, self._meanwhile)
                self.trouble = str(error)
                with self._changed:
                    if self._changed.wait_for(lambda: self._stopping, delay_us / 1e6):
                        return False
                delay_us = min(2 * delay_us, _RETRY_MAX_US)
            else:
                if self.trouble:
                    log.warning("%s writes again", self._what)
                self.trouble = ""
                return True
