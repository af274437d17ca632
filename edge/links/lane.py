"""One lane's connections: who is newest, when to try again, and what becomes of every message.

Shared by every link, so that they cannot disagree. Owned by the link's thread; only `up` is read elsewhere.
Invariants: Hello is first on every connection; a message is handed over on the newest welcomed connection or
reported; a body never crosses without its head; at most one connection of a lane takes new messages.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from edge.links.backoff import Backoff
from edge.links.base import Connected, Deliver, Disconnected, Dropped, LinkEvent, Received, Refused
from edge.links.mailbox import Batch
from protos.wire.bulk import BulkBatch, Have
from protos.wire.live import Cancel, FrameBody, FrameHead
from protos.wire.messages import ToAgent, ToWorker
from protos.wire.session import Error, Goodbye, Hello, Lane, Ping, Pong, RejectReason, Welcome

ATTEMPT_US = 2_000_000  # a connect, handshake or Welcome that takes longer is given up
SUPERSEDED_US = 30_000_000  # how long replies on an older connection are still waited for
MAX_ATTEMPTS = 4
MAX_SUPERSEDED = 4
REFUSED_FOR_GOOD_US = 2_000_000


class Transport(Protocol):
    """One connection as a transport offers it, used by the link's thread only."""

    def post(self, message: ToWorker) -> bool:
        """Hand a message over now; False if that would block or the connection is gone."""
        ...

    def close(self) -> None:
        """Close without waiting; nothing is reported for this connection afterwards."""
        ...


class Phase(StrEnum):
    OPENING = "opening"
    GREETING = "greeting"
    WELCOMED = "welcomed"


@dataclass(slots=True, eq=False)
class Line:
    """A connection and how far it has come; `owed` are frames whose head crossed and whose body could not."""

    number: int
    since_us: int
    phase: Phase = Phase.OPENING
    superseded_us: int | None = None
    transport: Transport | None = None
    owed: list[Cancel] = field(default_factory=list)

    def post(self, message: ToWorker) -> bool:
        return self.transport is not None and self.transport.post(message)


@dataclass(slots=True)
class LaneCounts:
    """What went wrong without hurting anyone, since the start."""

    dropped: int = 0  # messages accepted and then reported as Dropped
    control_dropped: int = 0  # pings, cancels and the like that could not be handed over
    bad_messages: int = 0  # what a worker sent and nobody could use
    attempts: int = 0  # connections opened


class LaneConnections:
    """The state of one lane. `open_transport` starts a connection; its link reports back through `opened`,
    `received`, `unusable` and `lost`."""

    def __init__(
        self,
        lane: Lane,
        hello: Hello,
        *,
        open_transport: Callable[[Line], Transport],
        deliver: Deliver,
        clock_us: Callable[[], int],
        numbers: Iterator[int],
        backoff: Backoff,
    ) -> None:
        self.lane = lane
        self.counts = LaneCounts()
        self._hello = replace(hello, lane=lane)
        self._open_transport = open_transport
        self._deliver: Callable[[LinkEvent], None] = deliver
        self._clock_us = clock_us
        self._numbers = numbers
        self._backoff = backoff
        self._lines: list[Line] = []
        self._newest: Line | None = None
        self._retry_us: int | None = None

    @property
    def up(self) -> bool:
        return self._newest is not None

    def __repr__(self) -> str:
        lines = ", ".join(f"{n.number}:{n.phase}{'*' if n is self._newest else ''}" for n in self._lines)
        return f"<{self.lane} lane [{lines}]>"

    def due_us(self) -> int | None:
        """When `tick` has something to do next, if nothing else happens."""
        dues = [
            n.since_us + ATTEMPT_US if n.phase is not Phase.WELCOMED else n.superseded_us + SUPERSEDED_US
            for n in self._lines
            if n.phase is not Phase.WELCOMED or n.superseded_us is not None
        ]
        if self._newest is None and not self._attempts():
            dues.append(self._retry_us or 0)
        return min(dues, default=None)

    def tick(self, now_us: int) -> None:
        """Give up what hangs, close what was superseded long ago, try again when it is time."""
        for line in tuple(self._lines):
            if line.phase is not Phase.WELCOMED and now_us - line.since_us >= ATTEMPT_US:
                self.lost(line, "no welcome within 2 s", now_us)
            elif line.superseded_us is not None and now_us - line.superseded_us >= SUPERSEDED_US:
                self._forget(line)
        if self._newest is None and not self._attempts() and now_us >= (self._retry_us or 0):
            self._open(now_us)

    def fresh(self, now_us: int) -> None:
        """One more attempt beside what there is."""
        if len(self._attempts()) < MAX_ATTEMPTS:
            self._open(now_us)

    def opened(self, line: Line, now_us: int) -> None:
        """The transport can carry messages."""
        line.phase = Phase.GREETING
        if not line.post(self._hello):
            self.lost(line, "the connection closed before Hello", now_us)

    def received(self, line: Line, message: ToAgent, arrived_us: int) -> None:
        match message:
            case Ping():
                pong = Pong(
                    nonce=message.nonce, arrived_mono_us=arrived_us, resident_us=self._clock_us() - arrived_us
                )
                self.counts.control_dropped += not line.post(pong)
            case Error(reason=RejectReason.HELLO_REQUIRED):
                if line.phase is Phase.WELCOMED:
                    self._greet_again(line, arrived_us)
            case Error() if line.phase is Phase.GREETING:
                self._refused(line, message, arrived_us)
            case Welcome() if line.phase is Phase.GREETING:
                self._welcomed(line, message, arrived_us)
            case _ if line.phase is Phase.WELCOMED and not isinstance(message, Welcome):
                self._deliver(Received(self.lane, line.number, message, arrived_us))
            case _:
                self.unusable()

    def unusable(self) -> None:
        """Something arrived that is no message, or none that fits."""
        self.counts.bad_messages += 1

    def lost(self, line: Line, reason: str, now_us: int) -> None:
        """The connection is gone or given up."""
        if line not in self._lines:
            return
        self._forget(line)
        if line is self._newest:
            self._newest = None
            self._retry_us = now_us + self._backoff.lost(now_us - line.since_us)
            self._deliver(Disconnected(self.lane, line.number, reason))
        elif line.phase is not Phase.WELCOMED and not self._attempts():
            self._retry_us = line.since_us + self._backoff.failed()

    def transmit(self, batch: Batch) -> None:
        """Hand a batch over in order. What cannot be handed over at once is reported, never kept."""
        line = self._newest
        heads = {(m.stream, m.seq): m for m in batch if isinstance(m, FrameHead)}
        headless: set[tuple[int, int]] = set()
        if line is not None:
            self._settle(line)
        for message in batch:
            match message:
                case FrameBody() if (message.stream, message.seq) in headless:
                    self._drop(message)
                case _ if line is not None and line.post(message):
                    continue
                case FrameHead():
                    headless.add((message.stream, message.seq))
                    self._drop(message)
                case FrameBody():
                    if (head := heads.get((message.stream, message.seq))) is not None:
                        self._drop(head)
                    self._drop(message)
                    if line is not None:
                        line.owed.append(Cancel(stream=message.stream, seq=message.seq))
                case BulkBatch() | Have():
                    self._drop(message)
                case _:
                    self.counts.control_dropped += 1

    def close(self, reason: str) -> None:
        """Say Goodbye where it can still be heard and close everything; nothing is reported."""
        for line in tuple(self._lines):
            if line.phase is Phase.WELCOMED:
                self.counts.control_dropped += not line.post(Goodbye(reason=reason))
            self._forget(line)
        self._newest = None

    def _attempts(self) -> list[Line]:
        return [n for n in self._lines if n.phase is not Phase.WELCOMED]

    def _open(self, now_us: int) -> None:
        line = Line(next(self._numbers), now_us)
        self._lines.append(line)
        self.counts.attempts += 1
        line.transport = self._open_transport(line)

    def _welcomed(self, line: Line, welcome: Welcome, now_us: int) -> None:
        if not self._hello.protocol_min <= welcome.protocol <= self._hello.protocol_max:
            text = f"the worker wants to speak protocol {welcome.protocol}, which was not offered"
            self._refused(line, Error(reason=RejectReason.VERSION, text=text, retry=False), now_us)
            return
        line.phase = Phase.WELCOMED
        line.since_us = now_us
        self._backoff.welcomed()
        for other in self._attempts():  # the first Welcome wins; its siblings have nothing to add
            self._forget(other)
        if self._newest is not None:
            self._newest.superseded_us = now_us
        self._newest = line
        superseded = [n for n in self._lines if n.superseded_us is not None]
        for old in superseded[:-MAX_SUPERSEDED]:
            self._forget(old)
        self._deliver(Connected(self.lane, line.number, welcome))

    def _refused(self, line: Line, error: Error, now_us: int) -> None:
        self._forget(line)
        wait_us = self._backoff.failed() if error.retry else REFUSED_FOR_GOOD_US
        self._retry_us = now_us + wait_us
        self._deliver(Refused(self.lane, error))

    def _greet_again(self, line: Line, now_us: int) -> None:
        """The worker lost its side of a living connection: the same wire, a new connection number."""
        if line is not self._newest:
            self._forget(line)
            return
        lost = line.number
        self._newest = None
        line.number, line.since_us = next(self._numbers), now_us
        line.owed.clear()
        self._deliver(Disconnected(self.lane, lost, "the worker asks for Hello again"))
        self.opened(line, now_us)

    def _settle(self, line: Line) -> None:
        """Tell the worker not to wait for bodies that could not follow their heads."""
        while line.owed and line.post(line.owed[0]):
            line.owed.pop(0)

    def _drop(self, message: ToWorker) -> None:
        self.counts.dropped += 1
        self._deliver(Dropped(self.lane, message))

    def _forget(self, line: Line) -> None:
        self._lines.remove(line)
        if line.transport is not None:
            line.transport.close()
