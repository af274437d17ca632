"""One lane of a link as a pure machine: moments and happenings in, decisions out, no clock and no socket.

Every connection it decides to open ends in exactly one `Close`. At most one is `current`: the newest that was
welcomed. At most 4 are being tried at once; at most 2 that a newer one overtook are kept, for 30 s, because
their replies still count. Where a name has several addresses the next one is tried beside a first that stays silent.
It tries for ever: backoff ≤ 1 s after a loss, 0.5 s or 2 s after a refusal.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from edge.backoff import Backoff
from edge.links.base import Connected, Disconnected, LinkEvent, Received, Refused
from protos.wire.messages import ToAgent, ToWorker
from protos.wire.session import Error, Goodbye, Lane, Ping, Pong, RejectReason, Welcome

ATTEMPT_WITHIN_US = 2_000_000
MOST_TRIED = 4
MOST_SUPERSEDED = 2
SUPERSEDED_FOR_US = 30_000_000
# A worker that comes back is found, greeted and answering within 1.5 s.
RETRY_FIRST_US = 100_000
RETRY_MOST_US = 1_000_000
REFUSED_AGAIN_US = 500_000
REFUSED_FOR_GOOD_US = 2_000_000
NEXT_ADDRESS_AFTER_US = 300_000


@dataclass(frozen=True, slots=True)
class Open:
    """Start connecting; report `shaken` when bytes can cross, `lost` when they no longer can."""

    number: int


@dataclass(frozen=True, slots=True)
class Greet:
    """Say Hello on this connection."""

    number: int


@dataclass(frozen=True, slots=True)
class Reply:
    """Send a small message on this connection."""

    number: int
    message: ToWorker


@dataclass(frozen=True, slots=True)
class Close:
    """Forget this connection; the lane has already."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Report this to the link's owner."""

    event: LinkEvent


Decision = Open | Greet | Reply | Close | Tell
LaneMessage = Welcome | Error | Ping
"""What a lane has to hear; any other message concerns the link's owner alone."""


class State(Enum):
    CONNECTING = "connecting"
    GREETING = "greeting"  # Hello is on its way, no Welcome yet
    READY = "ready"


@dataclass(slots=True)
class _Connection:
    """`since_us` is when the present state began; `superseded_us` when a newer one took over."""

    number: int
    since_us: int
    state: State = State.CONNECTING
    superseded_us: int | None = None
    welcome: Welcome | None = None

    def enter(self, state: State, now_us: int) -> None:
        self.state = state
        self.since_us = now_us

    @property
    def end_us(self) -> int | None:
        """When its time is over if nothing happens; None: never."""
        if self.state is not State.READY:
            return self.since_us + ATTEMPT_WITHIN_US
        return None if self.superseded_us is None else self.superseded_us + SUPERSEDED_FOR_US


class LaneMachine:
    """`numbers` names connections and is shared by the lanes of a link; `several` says whether another attempt leads
    to another address. `current` may be read by any thread."""

    def __init__(
        self, lane: Lane, numbers: Iterator[int], *, several: Callable[[], bool] = lambda: False
    ) -> None:
        self.lane = lane
        self._several = several
        self.current: int | None = None
        self.welcome: Welcome | None = None
        self._numbers = numbers
        self._connections: dict[int, _Connection] = {}  # oldest first
        self._retry_us: int | None = 0  # when to try again; None while one is tried or serves
        self._backoff = Backoff(first_us=RETRY_FIRST_US, most_us=RETRY_MOST_US)

    def __repr__(self) -> str:
        states = " ".join(f"{c.number}:{c.state.value}" for c in self._connections.values())
        return f"<LaneMachine {self.lane.value} current={self.current} [{states}]>"

    def state(self, number: int) -> State | None:
        """None for a connection that is none of this lane's, or no longer."""
        connection = self._connections.get(number)
        return None if connection is None else connection.state

    @property
    def due_us(self) -> int | None:
        """When `look` has something to decide next, if nothing happens before."""
        if self.current is not None and self._retry_us is None and len(self._connections) == 1:
            return None  # nearly always, and asked for each message
        ends = [c.end_us for c in self._connections.values()]
        return min((t for t in (*ends, self._retry_us, self._next_address_us) if t is not None), default=None)

    @property
    def _next_address_us(self) -> int | None:
        """When those that are tried have been silent for so long that another address is worth a try beside them."""
        if self.current is not None or not 0 < len(self._connections) < MOST_TRIED or not self._several():
            return None
        return max(c.since_us for c in self._connections.values()) + NEXT_ADDRESS_AFTER_US

    def look(self, now_us: int, *, fresh: bool = False) -> Sequence[Decision]:
        """Time has passed; `fresh`: a connection beside those that exist is wanted."""
        out: list[Decision] = []
        for connection in tuple(self._connections.values()):
            if connection.end_us is None or now_us < connection.end_us:
                continue
            old = connection.state is State.READY
            out += self._end(connection.number, "superseded" if old else "no answer from the worker", now_us)
        dues = (self._retry_us, self._next_address_us)
        due = any(due_us is not None and now_us >= due_us for due_us in dues)
        tried = sum(c.state is not State.READY for c in self._connections.values())
        if due or (fresh and tried < MOST_TRIED):
            self._retry_us = None
            number = next(self._numbers)
            self._connections[number] = _Connection(number, now_us)
            out.append(Open(number))
        return out

    def shaken(self, number: int, now_us: int) -> Sequence[Decision]:
        """The transport is up: bytes can cross."""
        connection = self._connections.get(number)
        if connection is None or connection.state is not State.CONNECTING:
            return ()
        connection.enter(State.GREETING, now_us)
        return (Greet(number),)

    def lost(self, number: int, reason: str, now_us: int) -> Sequence[Decision]:
        """The transport is down, or never came up."""
        return self._end(number, reason, now_us)

    def turned_down(self, number: int, reason: str, now_us: int) -> Sequence[Decision]:
        """The owner has no use for the worker that `number` was welcomed by."""
        if number not in self._connections:
            return ()
        serving = [c.number for c in self._connections.values() if c.state is State.READY]
        if serving == [number]:  # nothing else serves: another attempt would lead there again
            self._retry_us = now_us + REFUSED_FOR_GOOD_US
        goodbye = () if self.state(number) is not State.READY else (Reply(number, Goodbye(reason=reason)),)
        return (*goodbye, *self._end(number, reason, now_us))

    def heard(self, number: int, message: ToAgent, *, arrived_us: int, now_us: int) -> Sequence[Decision]:
        """A message came, also on an older connection."""
        connection = self._connections.get(number)
        if connection is None:
            return ()
        match message:
            case Welcome():
                return self._welcomed(connection, message, now_us)
            case Error(reason=RejectReason.HELLO_REQUIRED):
                # It has forgotten us, and with us what was in flight: a new connection says so.
                if number == self.current:
                    self._retry_us = now_us
                return self._end(number, "the worker asks for a new Hello", now_us)
            case Error() if connection.state is not State.READY:
                if self.current is None:  # else a fresh one was refused: the present one goes on
                    self._retry_us = now_us + (REFUSED_AGAIN_US if message.retry else REFUSED_FOR_GOOD_US)
                refused = Tell(Refused(self.lane, message))
                return (refused, *self._end(number, f"refused: {message.text}", now_us))
            case Ping():
                resident_us = now_us - arrived_us
                pong = Pong(nonce=message.nonce, arrived_mono_us=arrived_us, resident_us=resident_us)
                return (Reply(number, pong),)
            case _:
                return (Tell(Received(self.lane, number, message, arrived_us)),)

    def _welcomed(self, connection: _Connection, welcome: Welcome, now_us: int) -> Sequence[Decision]:
        if connection.state is State.READY:  # said twice, it changes nothing
            return ()
        connection.enter(State.READY, now_us)
        connection.welcome = welcome
        self._backoff.reset()
        self._retry_us = None
        if self.current is not None:
            self._connections[self.current].superseded_us = now_us
        self.current, self.welcome = connection.number, welcome
        out: list[Decision] = [Tell(Connected(self.lane, connection.number, welcome))]
        for other in tuple(self._connections.values()):
            if other.state is not State.READY:
                out += self._end(other.number, "another connection was quicker", now_us)
        return (*out, *self._end_oldest(now_us))

    def _end_oldest(self, now_us: int) -> Sequence[Decision]:
        old = [c.number for c in self._connections.values() if c.superseded_us is not None]
        return [
            decision
            for number in old[:-MOST_SUPERSEDED]
            for decision in self._end(number, "superseded", now_us)
        ]

    def _end(self, number: int, reason: str, now_us: int) -> Sequence[Decision]:
        if self._connections.pop(number, None) is None:
            return ()
        out: list[Decision] = [Close(number, reason)]
        if number == self.current:
            out += self._replace_current(number, reason)
        if self.current is None and not self._connections and self._retry_us is None:
            self._retry_us = now_us + self._backoff.next_us()
        return out

    def _replace_current(self, number: int, reason: str) -> Sequence[Decision]:
        """An older connection that still lives takes the place of the one that ended."""
        ready = [c for c in self._connections.values() if c.state is State.READY]
        if ready:
            ready[-1].superseded_us = None
            self.current, self.welcome = ready[-1].number, ready[-1].welcome
            return ()
        self.current, self.welcome = None, None
        return (Tell(Disconnected(self.lane, number, reason)),)
