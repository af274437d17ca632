"""Connections that live in memory, and the air they share: delay, cut and stall.

A message arrives `delay_us` after it was put on its way, in order, unless the air is cut or stalled. Queues
are bounded; putting never waits. The lock is the air's `changed`; the link's thread waits on it.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from protos.endpoint import Session
from protos.wire.messages import ToAgent, ToWorker

MOST_QUEUED = 64  # messages per connection and direction
ATTEMPT_WITHIN_US = 2_000_000
SUPERSEDED_FOR_US = 30_000_000

M = TypeVar("M", ToAgent, ToWorker)
Way = deque[tuple[int, M]]  # (when it arrives, what), oldest first


class Air:
    """What all connections of a link cross; `delay_us` is one direction."""

    def __init__(self, *, clock_us: Callable[[], int], delay_us: int) -> None:
        self.changed = threading.Condition()
        self.clock_us = clock_us
        self.delay_us = delay_us
        self.cut = False
        self.stalled = False

    def put(self, way: Way[M], message: M) -> None:
        """Start a message on its way."""
        with self.changed:
            due_us = self.clock_us() + self.delay_us
            way.append((max(due_us, way[-1][0]) if way else due_us, message))
            self.changed.notify()

    def arrived(self, way: Way[M]) -> list[M]:
        """Take what has arrived."""
        out = []
        with self.changed:
            while way and way[0][0] <= self.clock_us() and not (self.stalled or self.cut):
                out.append(way.popleft()[1])
        return out

    def next_us(self, way: Way[M]) -> int | None:
        """When the next message arrives, None while nothing will."""
        return way[0][0] if way and not (self.stalled or self.cut) else None


class Connection:
    """One connection, as the service's Peer too. `number` rises with every connection of a link."""

    def __init__(self, air: Air, *, number: int, now_us: int) -> None:
        self.number = number
        self.since_us = now_us
        self.up: Way[ToWorker] = deque()
        self.down: Way[ToAgent] = deque()
        self.session: Session | None = None
        self.welcomed = False
        self.superseded_us: int | None = None
        self.gone = False
        self.reason = ""
        self._hung_up = False
        self._air = air

    def __repr__(self) -> str:
        state = "gone" if self.gone else "welcomed" if self.welcomed else "greeting"
        return f"<Connection {self.number} {state}>"

    def send(self, message: ToAgent) -> bool:
        with self._air.changed:
            if self.gone or self._hung_up or len(self.down) >= MOST_QUEUED:
                return False
            self._air.put(self.down, message)
        return True

    def close(self) -> None:
        with self._air.changed:
            self._hung_up = True
            self._air.changed.notify()

    def ended(self, now_us: int) -> str:
        """Why this connection is over, empty while it is not."""
        if self.reason:
            return self.reason
        if self._air.cut:
            return "connection lost"
        if self._hung_up and not self.down:
            return "the worker closed the connection"
        if not self.welcomed and now_us - self.since_us >= ATTEMPT_WITHIN_US:
            return "no answer from the worker"
        if self.superseded_us is not None and now_us - self.superseded_us >= SUPERSEDED_FOR_US:
            return "superseded"
        return ""

    def due_us(self) -> int:
        """When something happens here next, if nobody sends anything."""
        arrivals = [self._air.next_us(self.up), self._air.next_us(self.down)]
        dues = [due for due in arrivals if due is not None]
        if not self.welcomed:
            dues.append(self.since_us + ATTEMPT_WITHIN_US)
        if self.superseded_us is not None:
            dues.append(self.superseded_us + SUPERSEDED_FOR_US)
        return 0 if self.ended(0) else min(dues, default=1 << 62)

    def hang_up(self) -> None:
        """Forget what is under way and tell the service."""
        with self._air.changed:
            self.gone = True
            self.up.clear()
            self.down.clear()
        if self.session is not None:
            self.session.closed()
