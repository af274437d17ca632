"""The reader of a camera: keeps one good connection for ever, and says how it is doing.

A camera that gives no fresh picture for `stall_after` is stalled: its connection is dropped, whatever hangs in it
is left behind, and it is opened anew with backoff. Nobody downstream waits, and `stop` works in every state. What to
do is the machine's to decide; this thread and those of the connections do it.
"""

import logging
import threading
from collections.abc import Callable, Sequence

from edge.backoff import Backoff
from edge.capture.base import LiveSource, Shape
from edge.capture.camera_machine import CameraMachine, Connect, Decision, LetGo, Patience, Publish, Say, Shed
from edge.capture.connection import Connection
from edge.capture.publisher import Publisher
from edge.capture.state import StreamStatus
from pipelines.frame import Picture

log = logging.getLogger(__name__)

_AFTER_A_FAULT_S = 1.0
_LAST_PICTURE_S = 0.2


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
        backoff: Backoff,
        ended: Callable[[str, str | None], None],
        clock_us: Callable[[], int],
    ) -> None:
        self._stream = publisher.stream
        super().__init__(name=f"capture-{self._stream}", daemon=True)
        self._connect = connect
        self._publisher = publisher
        self._ended = ended
        self._clock_us = clock_us
        # Held from the judgement of a picture until it lies in its slot: one picture after the other, whatever
        # connection it is from. Taken before `_changed`, never inside.
        self._publishing = threading.Lock()
        self._changed = threading.Condition()
        # Everything below belongs to who holds `_changed`; nothing that may take long is done under it.
        self._until_us: int | None = None  # the moment the loop waits for
        self._connections: dict[int, Connection] = {}
        self._machine = CameraMachine(
            patience=patience, expected=expected, backoff=backoff, now_us=clock_us()
        )

    @property
    def shape(self) -> Shape:
        """Of the last picture; before the first what was expected."""
        with self._changed:
            return self._machine.shape

    def status(self) -> StreamStatus:
        """How the stream is doing; from any thread."""
        with self._changed:
            return self._machine.status(frames=self._publisher.captured)

    def stop(self) -> None:
        """Capture nothing more; returns at once. Harmless twice."""
        with self._changed:
            self._carry_out(self._machine.stop(self._clock_us()))

    def close(self, timeout_s: float = 1.0) -> bool:
        """Stop and wait; False if a connection still hangs in C code. It ends with the call it hangs in."""
        self.stop()
        if self.ident is None:
            return True
        end_us = self._clock_us() + round(timeout_s * 1e6)
        self.join(timeout_s)
        with self._changed:
            left = list(self._connections.values())
        for connection in left:
            connection.join(max(0.0, (end_us - self._clock_us()) / 1e6))
        return not self.is_alive() and not any(connection.is_alive() for connection in left)

    # -- the loop -----------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while not self._machine.over:
                try:
                    self._turn()
                except Exception:
                    # Nothing here is expected to fail; if it does, the camera must not end as if all were well.
                    log.exception("stream %s: its watchdog failed; it goes on", self._stream)
                    self._rest(_AFTER_A_FAULT_S)
        finally:
            try:
                self.stop()
            finally:
                # A picture judged before the end is counted before the end is reported, unless its gate hangs.
                if self._publishing.acquire(timeout=_LAST_PICTURE_S):
                    self._publishing.release()
                self._ended(self._stream, None)

    def _turn(self) -> None:
        """Decide what is due and do it, then wait for the next moment or happening."""
        with self._changed:
            current = self._connections.get(self._machine.current or 0)
            skipped = 0 if current is None else current.skipped
            self._carry_out(self._machine.look(self._clock_us(), skipped=skipped))
            self._until_us = self._machine.due_us
            wait_s = None if self._until_us is None else max(0.0, (self._until_us - self._clock_us()) / 1e6)
            self._changed.wait_for(self._is_due_sooner, wait_s)

    def _is_due_sooner(self) -> bool:
        """Whether what happened since leaves something to be decided before the moment waited for."""
        due_us = self._machine.due_us
        sooner = due_us is not None and (self._until_us is None or due_us < self._until_us)
        return self._machine.over or sooner

    def _rest(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._machine.over, seconds)

    def _carry_out(self, decisions: Sequence[Decision]) -> None:
        """What the machine decided, besides what becomes of a picture; under `_changed`."""
        for decision in decisions:
            match decision:
                case Connect(number):
                    self._begin(number)
                case LetGo(number):
                    if number in self._connections:
                        self._connections[number].let_go()
                case Say(words=words, warn=warn):
                    log.log(logging.WARNING if warn else logging.INFO, "stream %s: %s", self._stream, words)
        if self._is_due_sooner():
            self._changed.notify_all()

    def _begin(self, number: int) -> None:
        connection = Connection(
            number=number, name=f"camera-{self._stream}-{number}", connect=self._connect, owner=self
        )
        try:
            connection.start()
        except Exception as broken:
            log.exception("stream %s: cannot begin a connection", self._stream)
            reason = f"cannot begin a connection: {broken}"
            self._carry_out(self._machine.lost(number, reason, self._clock_us()))
            return
        self._connections = {n: c for n, c in self._connections.items() if c.is_alive()}
        self._connections[number] = connection

    # -- from the connections' threads --------------------------------------------------------------------

    def opened(self, connection: Connection, shape: Shape) -> None:
        with self._changed:
            self._machine.opened(connection.number, shape)

    def given(self, connection: Connection, picture: Picture, pts_us: int | None) -> None:
        height_px, width_px = picture.shape[:2]
        with self._publishing:
            with self._changed:
                decisions = self._machine.given(
                    connection.number, size_px=(width_px, height_px), pts_us=pts_us, now_us=self._clock_us()
                )
                self._carry_out(decisions)
            for decision in decisions:
                match decision:
                    case Publish(age_us):
                        self._publisher.publish(picture, age_us=age_us)
                    case Shed(age_us):
                        self._publisher.shed(picture, age_us=age_us)
        if self._publisher.done:
            self.stop()

    def lost(self, connection: Connection, reason: str) -> None:
        with self._changed:
            self._carry_out(self._machine.lost(connection.number, reason, self._clock_us()))
