"""Runs the lanes of one link: what their machines decide is done here, whatever carries the bytes.

Used by the link's own thread; `current`, `judge`, `ask_fresh`, `refuse`, `bytes_sent` and `tell` may be called from
any. A connection is in `connections` from its opening to its close. The link's owner hears one thing at a time.
"""

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from edge.links.base import Connected, Deliver, LinkEvent, Sent
from edge.links.lane import Close, Decision, Greet, LaneMachine, Open, Reply, State, Tell
from protos.wire.messages import ToAgent, ToWorker
from protos.wire.session import Goodbye, Hello, Lane
from protos.wire.sizes import largest_part_bytes

log = logging.getLogger(__name__)

LONGEST_WAIT_US = 500_000


class Carrier(Protocol):
    """One connection, as the driver uses it."""

    @property
    def number(self) -> int: ...

    @property
    def lane(self) -> Lane: ...

    @property
    def bytes_sent(self) -> int: ...

    def control(self, message: ToWorker) -> None:
        """Send a small message as soon as there is room; never blocks."""
        ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Carrier)


class Driver(Generic[C]):
    """`dial` starts a connection.

    `greets_at_once`: a Hello can be given to a connection that is not up yet, and goes out first when it is.
    `several`: whether another attempt leads to another address.
    """

    def __init__(
        self,
        *,
        name: str,
        dial: Callable[[Lane, int], C],
        clock_us: Callable[[], int],
        greets_at_once: bool = False,
        several: Callable[[], bool] = lambda: False,
    ) -> None:
        self.connections: dict[int, C] = {}
        self.too_large = 0
        self.attempts = 0
        self.unanswered = ""
        numbers = itertools.count(1)
        self._lanes = {lane: LaneMachine(lane, numbers, several=several) for lane in Lane}
        self._name = name
        self._dial = dial
        self._clock_us = clock_us
        self._greets_at_once = greets_at_once
        self._fresh_wanted: deque[Lane] = deque()
        self._refused: deque[tuple[int, str]] = deque()
        self._books = threading.Lock()
        self._bytes_closed = 0
        self._hello: Hello | None = None
        self._deliver: Deliver = lambda _: None
        self._telling = threading.Lock()
        self._dial_error = ""

    def begin(self, hello: Hello, deliver: Deliver) -> None:
        self._hello = hello
        self._deliver = deliver

    @property
    def agent(self) -> str:
        return self._hello.agent if self._hello is not None else ""

    # -- from any thread --------------------------------------------------------------------------------------

    def current(self, lane: Lane) -> C | None:
        """The connection that messages of this lane go out on."""
        number = self._lanes[lane].current
        return None if number is None else self.connections.get(number)

    def judge(self, lane: Lane, messages: Sequence[ToWorker]) -> Sent:
        """What can be said about a send before any queue is looked at."""
        welcome = self._lanes[lane].welcome
        if welcome is None:
            return Sent.DOWN
        # 0 is what a worker says that has never heard of limits.
        most_bytes = welcome.limits.message_bytes
        for message in messages if most_bytes else ():
            if largest_part_bytes(message) > most_bytes:
                self.too_large += 1
                return Sent.TOO_LARGE
        return Sent.ACCEPTED

    def ask_fresh(self, lane: Lane) -> None:
        self._fresh_wanted.append(lane)

    def refuse(self, number: int, reason: str) -> None:
        """The owner has no use for a connection; the link's thread has to look."""
        self._refused.append((number, reason))

    def bytes_sent(self) -> int:
        with self._books:  # a connection is counted as open or as closed, never as neither
            return self._bytes_closed + sum(c.bytes_sent for c in self.connections.values())

    def tell(self, event: LinkEvent) -> None:
        """Whatever the owner does with an event, the link goes on."""
        with self._telling:
            try:
                self._deliver(event)
            except Exception:
                log.exception("link %s: %s could not be delivered", self._name, type(event).__name__)

    # -- on the link's thread ---------------------------------------------------------------------------------

    def wait_us(self) -> int:
        """How long the thread may sleep if nothing happens."""
        if self._fresh_wanted or self._refused:
            return 0
        dues = [due for lane in self._lanes.values() if (due := lane.due_us) is not None]
        if not dues:
            return LONGEST_WAIT_US
        return max(0, min(min(dues) - self._clock_us(), LONGEST_WAIT_US))

    def look(self) -> None:
        """Time has passed, or the owner has asked for something."""
        while self._refused:
            number, reason = self._refused.popleft()
            if (connection := self.connections.get(number)) is not None:
                lane = connection.lane
                self._do(lane, self._lanes[lane].turned_down(number, reason, self._clock_us()))
        fresh = {self._fresh_wanted.popleft() for _ in range(len(self._fresh_wanted))}
        for lane, machine in self._lanes.items():
            self._do(lane, machine.look(self._clock_us(), fresh=lane in fresh))

    def shaken(self, connection: C) -> None:
        lane = connection.lane
        self._do(lane, self._lanes[lane].shaken(connection.number, self._clock_us()))

    def heard(self, connection: C, message: ToAgent, arrived_us: int) -> None:
        lane = connection.lane
        self._do(
            lane,
            self._lanes[lane].heard(
                connection.number, message, arrived_us=arrived_us, now_us=self._clock_us()
            ),
        )

    def lost(self, connection: C, reason: str) -> None:
        lane = connection.lane
        self._do(lane, self._lanes[lane].lost(connection.number, reason, self._clock_us()))

    def say_goodbye(self) -> list[C]:
        """Tell every worker that welcomed us; those connections."""
        told = [c for c in self.connections.values() if self._lanes[c.lane].state(c.number) is State.READY]
        for connection in told:
            connection.control(Goodbye(reason="the agent ends"))
        return told

    def close(self) -> None:
        """Close every connection; no lane decides anything after this."""
        for connection in tuple(self.connections.values()):
            self._forget(connection)

    def _do(self, lane: Lane, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Open(number):
                    self._open(lane, number)
                case Greet(number):
                    if self._hello is not None:
                        self.connections[number].control(_on(lane, self._hello))
                case Reply(number, message):
                    self.connections[number].control(message)
                case Close(number, reason):
                    log.debug("link %s: %s connection %d ends: %s", self._name, lane, number, reason)
                    if lane is Lane.LIVE and self._lanes[lane].current is None:
                        self.unanswered = reason
                    if number in self.connections:  # else it could not be started
                        self._forget(self.connections[number])
                case Tell(event):
                    if isinstance(event, Connected) and lane is Lane.LIVE:
                        self.unanswered = ""
                    self.tell(event)

    def _open(self, lane: Lane, number: int) -> None:
        """Whatever keeps a connection from being started (no descriptor, no thread left) is one more failed attempt."""
        self.attempts += 1
        try:
            connection = self._dial(lane, number)
        except Exception as error:  # noqa: BLE001 - the link has to outlive it, whatever it is
            words = str(error) or type(error).__name__
            if words != self._dial_error:
                self._dial_error = words
                log.warning("link %s: no connection can be started: %s", self._name, words)
            self._do(lane, self._lanes[lane].lost(number, words, self._clock_us()))
            return
        self._dial_error = ""
        with self._books:
            self.connections[number] = connection
        if self._greets_at_once:
            self.shaken(connection)

    def _forget(self, connection: C) -> None:
        connection.close()
        with self._books:
            del self.connections[connection.number]
            self._bytes_closed += connection.bytes_sent


def _on(lane: Lane, hello: Hello) -> Hello:
    """What is said on one lane: records need no model, so a worker that lacks the wanted one takes them all the same."""
    if lane is Lane.BULK:
        return replace(hello, lane=lane, model="", model_sha256="", input_width_px=0, input_height_px=0)
    return replace(hello, lane=lane)
