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
from protos.wire.session import Lane

MOST_QUEUED = 64  # messages per connection and direction

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


class MemoryConnection:
    """One connection, as the link sees it. `broken` says why it is over, empty while it is not."""

    def __init__(self, air: Air, *, number: int, lane: Lane) -> None:
        self.number = number
        self.lane = lane
        self.up: Way[ToWorker] = deque()
        self.down: Way[ToAgent] = deque()
        self.session: Session | None = None
        self.bytes_sent = 0
        self.broken = "no connection" if air.cut else ""
        self._gone = False
        self._hung_up = False
        self._air = air

    def __repr__(self) -> str:
        return f"<MemoryConnection {self.number} {self.lane.value} {'gone' if self._gone else self.broken or 'sound'}>"

    def control(self, message: ToWorker) -> None:
        self._air.put(self.up, message)

    def reply(self, message: ToAgent) -> bool:
        """The worker sends; False when this connection is over or its way back is full."""
        with self._air.changed:
            if self._gone or self._hung_up or len(self.down) >= MOST_QUEUED:
                return False
            self._air.put(self.down, message)
        return True

    def hang_up(self) -> None:
        """The worker ends it, after what it has sent has arrived."""
        with self._air.changed:
            self._hung_up = True
            self._air.changed.notify()

    @property
    def ended(self) -> str:
        """Why this connection is over, empty while it is not."""
        if not self.broken and self._hung_up and not self.down:
            return "the worker closed the connection"
        return self.broken

    def due_us(self) -> int | None:
        """When something arrives or ends here next, None if nothing will."""
        dues = [self._air.next_us(self.up), self._air.next_us(self.down)]
        return 0 if self.ended else min((due for due in dues if due is not None), default=None)

    def close(self) -> None:
        """Forget what is under way and tell the service."""
        with self._air.changed:
            self._gone = True
            self.up.clear()
            self.down.clear()
        if self.session is not None:
            self.session.closed()


class WorkerEnd:
    """A connection as the service's Peer."""

    def __init__(self, connection: MemoryConnection) -> None:
        self._connection = connection

    def send(self, message: ToAgent) -> bool:
        return self._connection.reply(message)

    def close(self) -> None:
        self._connection.hang_up()
