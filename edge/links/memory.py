"""The link in memory: a gateway and a worker in one process, with the faults of a network at hand.

It keeps the contract of `edge.links.base.Link`. Messages go through the wire's own packing, so what a real
wire would refuse or lose is refused or lost here too. `cut`, `stall` and `set_delay` are what a bad link
does; `heal` and `resume` end it. Its thread alone opens and ends connections and calls `deliver`.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from edge.links.backoff import Backoff
from edge.links.base import Connected, Deliver, Disconnected, LinkEvent, Received, Refused, Sent
from edge.links.memory_connection import MOST_QUEUED, Air, Connection
from pipelines.errors import NearfarError, Rejected
from protos.endpoint import Endpoint
from protos.wire import multipart
from protos.wire.messages import ToAgent, ToWorker
from protos.wire.session import Error, Goodbye, Hello, Lane, Ping, Pong, RejectReason, Welcome

log = logging.getLogger(__name__)

MOST_FRESH = 4
MOST_SUPERSEDED = 2
REFUSED_AGAIN_US = 500_000
REFUSED_FOR_GOOD_US = 2_000_000
LONGEST_WAIT_US = 500_000
CLOSE_WITHIN_S = 0.5


@dataclass(slots=True)
class _Lane:
    """`current` is the newest welcomed connection; `retry_us` when to try again, None while one is trying."""

    lane: Lane
    connections: list[Connection] = field(default_factory=list)
    current: Connection | None = None
    retry_us: int | None = 0
    backoff: Backoff = field(default_factory=Backoff)


class MemoryLink:
    """A link to `endpoint` in this process; `delay_us` is the way in one direction."""

    def __init__(
        self, *, name: str, endpoint: Endpoint, clock_us: Callable[[], int], delay_us: int = 0
    ) -> None:
        self._name = name
        self._endpoint = endpoint
        self._clock_us = clock_us
        self._air = Air(clock_us=clock_us, delay_us=delay_us)
        self._lanes = {lane: _Lane(lane) for lane in Lane}
        self._fresh_wanted = False
        self._closing = False
        self._numbers = 0
        self._bytes_sent = 0
        self.bad_messages = 0
        self._hello: Hello | None = None
        self._deliver: Deliver = lambda _: None
        self._thread = threading.Thread(target=self._run, name=f"link-{name}", daemon=True)

    @property
    def name(self) -> str:
        return self._name

    def start(self, hello: Hello, deliver: Deliver) -> None:
        self._hello = hello
        self._deliver = deliver
        self._thread.start()

    def send(self, *messages: ToWorker, lane: Lane = Lane.LIVE) -> Sent:
        with self._air.changed:
            connection = self._lanes[lane].current
            if connection is None or self._closing:
                return Sent.DOWN
            if connection.up and len(connection.up) + len(messages) > MOST_QUEUED:
                return Sent.FULL
            for message in messages:
                self._air.put(connection.up, message)
        return Sent.ACCEPTED

    def open_fresh(self) -> None:
        with self._air.changed:
            self._fresh_wanted = True
            self._air.changed.notify()

    def bytes_sent(self) -> int:
        return self._bytes_sent

    def close(self) -> None:
        with self._air.changed:
            self._closing = True
            self._air.changed.notify()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_WITHIN_S)

    # -- faults -------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """End every connection; what is under way is lost and no new one comes about until `heal`."""
        self._fault(cut=True)

    def heal(self) -> None:
        self._fault(cut=False)

    def stall(self) -> None:
        """Nothing arrives any more, in neither direction, and nobody is told; `resume` lets it through."""
        self._fault(stalled=True)

    def resume(self) -> None:
        self._fault(stalled=False)

    def set_delay(self, delay_us: int) -> None:
        """The way in one direction from now on; nothing overtakes what is under way."""
        self._fault(delay_us=delay_us)

    def _fault(
        self, *, cut: bool | None = None, stalled: bool | None = None, delay_us: int | None = None
    ) -> None:
        air = self._air
        with air.changed:
            air.cut = air.cut if cut is None else cut
            air.stalled = air.stalled if stalled is None else stalled
            air.delay_us = air.delay_us if delay_us is None else delay_us
            if cut:  # even if it heals before the thread looks, these connections are over
                for side in self._lanes.values():
                    for connection in side.connections:
                        connection.reason = "connection lost"
            air.changed.notify()

    # -- the link's thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._sleep():
                for side in self._lanes.values():
                    self._serve(side)
            self._say_goodbye()
        except Exception:
            log.exception("link %s: its thread failed", self._name)
        for side in self._lanes.values():
            for connection in side.connections:
                connection.hang_up()
            side.connections.clear()

    def _tell(self, event: LinkEvent) -> None:
        """Whatever a listener does with an event, the link goes on."""
        try:
            self._deliver(event)
        except Exception:
            log.exception("link %s: %s could not be delivered", self._name, type(event).__name__)

    def _sleep(self) -> bool:
        """Until there is something to do; False when the link is closing."""
        with self._air.changed:
            while not self._closing:
                now_us = self._clock_us()
                wait_us = min(self._due_us() - now_us, LONGEST_WAIT_US)
                if wait_us <= 0:
                    break
                self._air.changed.wait(wait_us / 1e6)
            return not self._closing

    def _due_us(self) -> int:
        if self._fresh_wanted:
            return 0
        retries = [s.retry_us for s in self._lanes.values() if s.retry_us is not None]
        connections = [c.due_us() for s in self._lanes.values() for c in s.connections]
        return min(retries + connections, default=1 << 62)

    def _say_goodbye(self) -> None:
        if self._air.cut or self._air.stalled:
            return
        for side in self._lanes.values():
            for connection in side.connections:
                if connection.session is not None and connection.welcomed:
                    connection.session.receive(Goodbye(reason="the agent ends"), self._clock_us())

    def _serve(self, side: _Lane) -> None:
        for connection in tuple(side.connections):
            for sent in self._air.arrived(connection.up):
                self._reach_worker(connection, sent)
            for reply in self._air.arrived(connection.down):
                if not connection.reason:
                    self._reach_agent(side, connection, reply)
        now_us = self._clock_us()
        for connection in [c for c in side.connections if c.superseded_us is not None][:-MOST_SUPERSEDED]:
            connection.reason = "superseded"
        for connection in tuple(side.connections):
            with self._air.changed:
                connection.reason = connection.ended(now_us)
            if connection.reason:
                self._end(side, connection)
        self._open_due(side, now_us)

    def _reach_worker(self, connection: Connection, message: ToWorker) -> None:
        parts = multipart.pack_to_worker(message)
        self._bytes_sent += sum(len(part) for part in parts)
        session = connection.session
        if session is None:
            session = connection.session = self._endpoint.open(connection)
        arrived_us = self._clock_us()
        try:
            session.receive(multipart.unpack_to_worker(parts, agent=session.agent), arrived_us)
        except NearfarError as error:
            session.refuse(str(error))
        except Exception:  # the worker's fault is the worker's: the link lives on
            log.exception("a message of agent %r could not be served", session.agent)
            session.refuse("this message could not be served; the worker's log says why")

    def _reach_agent(self, side: _Lane, connection: Connection, sent: ToAgent) -> None:
        arrived_us = self._clock_us()
        agent = self._hello.agent if self._hello is not None else ""
        try:
            message = multipart.unpack_to_agent(multipart.pack_to_agent(sent), agent=agent)
        except Rejected as error:
            self.bad_messages += 1
            log.debug("link %s: %s", self._name, error)
            return
        match message:
            case Welcome():
                self._welcomed(side, connection, message)
            case Error(reason=RejectReason.HELLO_REQUIRED):
                # It has forgotten us, and with us what was in flight: a new connection says so.
                connection.reason = "the worker asks for a new Hello"
                if connection is side.current:
                    side.retry_us = arrived_us
            case Error() if not connection.welcomed:
                self._tell(Refused(side.lane, message))
                connection.reason = f"refused: {message.text}"
                if side.current is None:
                    side.retry_us = arrived_us + (REFUSED_AGAIN_US if message.retry else REFUSED_FOR_GOOD_US)
            case Ping():
                resident_us = self._clock_us() - arrived_us
                pong = Pong(nonce=message.nonce, arrived_mono_us=arrived_us, resident_us=resident_us)
                self._air.put(connection.up, pong)
            case _:
                self._tell(Received(side.lane, connection.number, message, arrived_us))

    def _greet(self, side: _Lane, connection: Connection) -> None:
        if self._hello is not None:
            self._air.put(connection.up, replace(self._hello, lane=side.lane))

    def _welcomed(self, side: _Lane, connection: Connection, welcome: Welcome) -> None:
        now_us = self._clock_us()
        connection.welcomed = True
        side.backoff.reset()
        side.retry_us = None
        if side.current is not None and side.current.number > connection.number:
            connection.superseded_us = now_us  # a newer one was quicker
            return
        if side.current is not None and side.current is not connection:
            side.current.superseded_us = now_us
        with self._air.changed:
            side.current = connection
        for other in side.connections:
            if not other.welcomed:
                other.reason = "another connection was quicker"
        self._tell(Connected(side.lane, connection.number, welcome))

    def _end(self, side: _Lane, connection: Connection) -> None:
        with self._air.changed:
            side.connections.remove(connection)
        connection.hang_up()
        if connection is side.current:
            older = [c for c in side.connections if c.welcomed]
            with self._air.changed:
                side.current = older[-1] if older else None
            if side.current is not None:
                side.current.superseded_us = None
            else:
                self._tell(Disconnected(side.lane, connection.number, connection.reason))
        if side.current is None and not side.connections and side.retry_us is None:
            side.retry_us = self._clock_us() + side.backoff.next_us()

    def _open_due(self, side: _Lane, now_us: int) -> None:
        fresh = False
        if side.lane is Lane.LIVE:
            with self._air.changed:
                fresh, self._fresh_wanted = self._fresh_wanted, False
            fresh = fresh and sum(not c.welcomed for c in side.connections) < MOST_FRESH
        if not fresh and (side.retry_us is None or now_us < side.retry_us):
            return
        if self._air.cut:
            side.retry_us = now_us + side.backoff.next_us()
            return
        side.retry_us = None
        self._numbers += 1
        connection = Connection(self._air, number=self._numbers, now_us=now_us)
        with self._air.changed:
            side.connections.append(connection)
        self._greet(side, connection)
