"""The reader of a camera: keeps one good connection for ever, and says how it is doing.

A camera that gives no fresh picture for `stall_after` is stalled: its connection is dropped, whatever hangs in it
is left behind, and it is opened anew with backoff. Nobody downstream waits, and `stop` works in every state.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from edge.capture.backoff import Backoff
from edge.capture.base import LiveSource, Shape
from edge.capture.connection import Connection
from edge.capture.publisher import Publisher
from edge.capture.staleness import Staleness
from edge.capture.state import StreamState, StreamStatus
from pipelines.frame import Picture

log = logging.getLogger(__name__)

MOST_HANGING = 3
"""Connections left behind in C code; no new one is begun beside so many."""
HANGING_LOOK_US = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """`open_us` from the attempt to its first picture, `stall_us` between pictures, `max_stale_us` the age beyond
    which a picture is shed."""

    open_us: int
    stall_us: int
    max_stale_us: int


class Watchdog(threading.Thread):
    """Reads a camera into `publisher` from `start` until the last frame wanted or `stop`.

    `connect` makes a source for each attempt, on a thread of its own; `expected` is what is known before the first
    picture. `ended(stream, None)` is called exactly once, from this thread.
    """

    def __init__(
        self,
        *,
        connect: Callable[[], LiveSource],
        publisher: Publisher,
        patience: Patience,
        expected: Shape,
        ended: Callable[[str, str | None], None],
        clock_us: Callable[[], int],
        dice: Callable[[], float],
    ) -> None:
        self._stream = publisher.stream
        super().__init__(name=f"capture-{self._stream}", daemon=True)
        self._connect = connect
        self._publisher = publisher
        self._patience = patience
        self._ended = ended
        self._clock_us = clock_us
        self._backoff = Backoff(dice)
        self._changed = threading.Condition()
        # Everything below belongs to who holds `_changed`.
        self._stopping = False
        self._shape = expected
        self._current: Connection | None = None
        self._lost: str | None = None
        self._hanging: list[Connection] = []
        self._staleness = Staleness(max_stale_us=patience.max_stale_us)
        self._fresh_us: int | None = None
        self._attempts = 0
        self._stale = 0
        self._state, self._since_us, self._reason = StreamState.CONNECTING, clock_us(), ""
        self._said: set[str] = set()

    @property
    def shape(self) -> Shape:
        """Of the last picture; before the first what was expected."""
        with self._changed:
            return self._shape

    def status(self) -> StreamStatus:
        """How the stream is doing; from any thread."""
        with self._changed:
            return StreamStatus(
                state=self._state,
                since_us=self._since_us,
                reason=self._reason,
                frames=self._publisher.captured,
                stale=self._stale,
                reconnects=max(0, self._attempts - 1),
                hanging=sum(1 for left in self._hanging if left is not self._current and left.is_alive()),
                width_px=self._shape.width_px,
                height_px=self._shape.height_px,
            )

    def stop(self) -> None:
        """Capture nothing more; returns at once. Harmless twice."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def close(self, timeout_s: float = 1.0) -> bool:
        """Stop and wait; False if a connection still hangs in C code. It ends with the call it hangs in."""
        self.stop()
        if self.ident is None:
            return True
        end_us = self._clock_us() + round(timeout_s * 1e6)
        self.join(timeout_s)
        with self._changed:
            left = list(self._hanging)
        for connection in left:
            connection.join(max(0.0, (end_us - self._clock_us()) / 1e6))
        return not self.is_alive() and not any(connection.is_alive() for connection in left)

    # -- the loop -----------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while not self._over:
                self._hold_one()
                self._wait(self._backoff.next_us())
                while len(self._still_hanging()) >= MOST_HANGING and not self._over:
                    self._wait(HANGING_LOOK_US)
        finally:
            with self._changed:
                self._become(StreamState.ENDED, "")
            self._ended(self._stream, None)

    @property
    def _over(self) -> bool:
        return self._stopping or self._publisher.done

    def _wait(self, wait_us: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._over, wait_us / 1e6)

    def _still_hanging(self) -> list[Connection]:
        with self._changed:
            self._hanging = [connection for connection in self._hanging if connection.is_alive()]
            if len(self._hanging) >= MOST_HANGING:
                self._trouble(
                    f"{len(self._hanging)} earlier connections hang in the decoder; waiting for one of them to end"
                )
            return self._hanging

    def _hold_one(self) -> None:
        """One connection, from the attempt until it is lost, silent for too long, or nobody wants it."""
        with self._changed:
            self._attempts += 1
            connection = Connection(
                name=f"camera-{self._stream}-{self._attempts}", connect=self._connect, owner=self
            )
            self._current, self._lost, self._fresh_us = connection, None, None
            self._staleness = Staleness(max_stale_us=self._patience.max_stale_us)
            self._hanging.append(connection)
            begun_us = self._clock_us()
            connection.start()
            while self._lost is None and not self._over:
                silent_us = self._silent_us(begun_us)
                if silent_us >= 0:
                    break
                self._changed.wait(-silent_us / 1e6)
            self._current = None
            connection.let_go()
            if not self._over:
                self._trouble(self._lost or self._silence())

    def _silent_us(self, begun_us: int) -> int:
        """How long patience has been over; negative while it lasts."""
        if self._fresh_us is None:
            return self._clock_us() - begun_us - self._patience.open_us
        return self._clock_us() - self._fresh_us - self._patience.stall_us

    def _silence(self) -> str:
        if self._fresh_us is None:
            return f"no picture within {self._patience.open_us / 1e6:g} s of connecting"
        return f"no fresh picture for {self._patience.stall_us / 1e6:g} s"

    # -- from the connection's thread ---------------------------------------------------------------------

    def opened(self, connection: Connection, shape: Shape) -> None:
        with self._changed:
            if connection is self._current:
                self._shape = shape

    def given(self, connection: Connection, picture: Picture, pts_us: int | None) -> None:
        with self._changed:
            if connection is not self._current or self._over:
                connection.let_go()
                return
            now_us = self._clock_us()
            age = self._staleness.judge(arrived_us=now_us, pts_us=pts_us)
            if age.stale:
                self._stale += 1
                self._publisher.shed(picture, age_us=age.age_us)
            else:
                self._fresh(picture, now_us)
                self._publisher.publish(picture, age_us=age.age_us)
            if self._publisher.done:
                self._changed.notify_all()

    def lost(self, connection: Connection, reason: str) -> None:
        with self._changed:
            if connection is self._current:
                self._lost = reason
                self._changed.notify_all()

    # -- states, under the lock ---------------------------------------------------------------------------

    def _fresh(self, picture: Picture, now_us: int) -> None:
        height, width = picture.shape[:2]
        if (width, height) != (self._shape.width_px, self._shape.height_px):
            if self._state is StreamState.RUNNING:
                log.info("stream %s: pictures are %dx%d from now on", self._stream, width, height)
            self._shape = Shape(width_px=width, height_px=height, fps=self._shape.fps)
        first = self._fresh_us is None
        self._fresh_us = now_us
        if first:
            self._changed.notify_all()
        if self._state is not StreamState.RUNNING:
            self._backoff.reset()
            self._become(StreamState.RUNNING, "")

    def _trouble(self, reason: str) -> None:
        """No pictures, and why: said once for each reason until pictures come again."""
        seen = self._state in (StreamState.RUNNING, StreamState.STALLED)
        self._become(StreamState.STALLED if seen else StreamState.CONNECTING, reason)

    def _become(self, state: StreamState, reason: str) -> None:
        now_us = self._clock_us()
        before, since_us = self._state, self._since_us
        self._reason = reason
        if state is not before:
            self._state, self._since_us = state, now_us
            self._said.clear()
        if state is StreamState.RUNNING:
            words = f"{self._shape.width_px}x{self._shape.height_px} pictures"
            if before is StreamState.STALLED or self._attempts > 1:
                log.warning(
                    "stream %s: running again, %s, after %.1f s without",
                    self._stream,
                    words,
                    (now_us - since_us) / 1e6,
                )
            else:
                log.info("stream %s: running, %s", self._stream, words)
        elif reason and reason not in self._said:
            self._said.add(reason)
            log.warning(
                "stream %s: %s: %s; it is opened anew until pictures come", self._stream, state, reason
            )
