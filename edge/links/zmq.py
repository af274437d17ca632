"""The ZeroMQ link: `zmq://host:port`, one DEALER per connection, live and bulk on connections of their own.

One I/O thread owns every socket; others queue messages and wake it. A frame that cannot be handed to the
network at once is reported dropped: no stale queue builds up below us. It reconnects for ever.
"""

import contextlib
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import zmq

from edge.links.backoff import Backoff
from edge.links.base import (
    Connected,
    Deliver,
    Disconnected,
    Dropped,
    LinkEvent,
    Received,
    Refused,
    Sent,
)
from edge.links.zmq_connection import GOODBYE_LINGER_MS, Connection, State
from pipelines.errors import Rejected
from protos.wire import multipart
from protos.wire.bulk import BulkBatch, Have
from protos.wire.live import Cancel, FrameBody, FrameHead
from protos.wire.messages import ToWorker
from protos.wire.session import Error, Goodbye, Hello, Lane, Ping, Pong, RejectReason, Welcome

log = logging.getLogger(__name__)

MOST_QUEUED = 64  # groups of messages per lane
MOST_FRESH = 4
MOST_SUPERSEDED = 2
SUPERSEDED_FOR_US = 30_000_000
REFUSED_AGAIN_US = 500_000
REFUSED_FOR_GOOD_US = 2_000_000
LONGEST_POLL_US = 500_000


@dataclass(slots=True)
class _Lane:
    """`current` is the newest welcomed connection; `retry_us` when to try again, None while one is trying."""

    lane: Lane
    outbound: deque[tuple[ToWorker, ...]] = field(default_factory=deque)
    connections: list[Connection] = field(default_factory=list)
    current: Connection | None = None
    ready: bool = False
    retry_us: int | None = 0
    backoff: Backoff = field(default_factory=Backoff)


class ZmqLink:
    """A link to the worker at `url`; see `edge.links.base.Link` for the contract."""

    def __init__(self, *, name: str, url: str, clock_us: Callable[[], int]) -> None:
        self._name = name
        self._address = url.removeprefix("zmq://")
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._lanes = {lane: _Lane(lane) for lane in Lane}
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._fresh_wanted = 0
        self._closing = False
        self._numbers = 0
        self._bytes_closed = 0
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
        self._context = zmq.Context[zmq.Socket[bytes]](1)
        self._thread.start()

    def send(self, *messages: ToWorker, lane: Lane = Lane.LIVE) -> Sent:
        side = self._lanes[lane]
        with self._lock:
            if not side.ready or self._closing:
                return Sent.DOWN
            if len(side.outbound) >= MOST_QUEUED:
                return Sent.FULL
            side.outbound.append(messages)
        self._wake()
        return Sent.ACCEPTED

    def open_fresh(self) -> None:
        with self._lock:
            self._fresh_wanted = 1
        self._wake()

    def bytes_sent(self) -> int:
        return self._bytes_closed + sum(
            c.bytes_sent for s in self._lanes.values() for c in tuple(s.connections)
        )

    def close(self) -> None:
        with self._lock:
            already, self._closing = self._closing, True
        if already:
            return
        if self._thread.ident is not None:
            self._wake()
            self._thread.join(0.5)
            if not self._thread.is_alive():  # else term would wait for its sockets for ever
                self._context.term()
        self._wake_in.close()
        self._wake_out.close()

    # -- the I/O thread -----------------------------------------------------------------------------------

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: it is awake; closed: it has ended
            self._wake_in.send(b"\0")

    def _run(self) -> None:
        try:
            while not self._closing:
                self._wait()
                self._drain_wake_ups()
                for side in self._lanes.values():
                    self._serve(side)
        except Exception:
            log.exception("link %s: its thread failed", self._name)
        with self._lock:
            self._closing = True
            for side in self._lanes.values():
                side.ready = False
        for side in self._lanes.values():
            for connection in side.connections:
                if connection.state is State.READY:
                    connection.control(Goodbye(reason="the agent ends"))
                self._bytes_closed += connection.bytes_sent
                connection.close(linger_ms=GOODBYE_LINGER_MS)
            side.connections.clear()

    def _tell(self, event: LinkEvent) -> None:
        """Whatever a listener does with an event, the link goes on."""
        try:
            self._deliver(event)
        except Exception:
            log.exception("link %s: %s could not be delivered", self._name, type(event).__name__)

    def _wait(self) -> None:
        poller = zmq.Poller()
        poller.register(self._wake_out, zmq.POLLIN)
        now_us = self._clock_us()
        due_us = now_us + LONGEST_POLL_US
        for side in self._lanes.values():
            if side.retry_us is not None:
                due_us = min(due_us, side.retry_us)
            for connection in side.connections:
                out = zmq.POLLOUT if connection.waits_to_send else 0
                poller.register(connection.dealer, zmq.POLLIN | out)
                poller.register(connection.monitor, zmq.POLLIN)
        poller.poll(max(0, -(-(due_us - now_us) // 1000)))

    def _drain_wake_ups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_out.recv(4096):
                pass

    def _serve(self, side: _Lane) -> None:
        now_us = self._clock_us()
        for connection in tuple(side.connections):
            self._read(side, connection)
            self._look(side, connection)
        self._send_queued(side)
        self._end_old(side, now_us)
        self._open_due(side, now_us)

    def _look(self, side: _Lane, connection: Connection) -> None:
        """What the monitor says: greet on the handshake, notice the end."""
        for shaken in connection.happened():
            if shaken and connection.state is State.CONNECTING:
                connection.enter(State.GREETING, self._clock_us())
                self._greet(side, connection)
            elif not shaken:
                connection.broke("connection lost" if connection is side.current else "no connection")
        connection.flush()

    def _greet(self, side: _Lane, connection: Connection) -> None:
        if self._hello is not None:
            connection.control(replace(self._hello, lane=side.lane))

    def _read(self, side: _Lane, connection: Connection) -> None:
        while (parts := connection.receive()) is not None:
            arrived_us = self._clock_us()
            agent = self._hello.agent if self._hello is not None else ""
            try:
                message = multipart.unpack_to_agent(parts, agent=agent)
            except Rejected as error:
                self.bad_messages += 1
                log.debug("link %s: %s", self._name, error)
                continue
            match message:
                case Welcome():
                    self._welcomed(side, connection, message)
                case Error(reason=RejectReason.HELLO_REQUIRED):
                    # It has forgotten us, and with us what was in flight: a new connection says so.
                    connection.broke("the worker asks for a new Hello")
                    if connection is side.current:
                        side.retry_us = arrived_us
                case Error() if connection.state is State.GREETING:
                    self._tell(Refused(side.lane, message))
                    connection.broke(f"refused: {message.text}")
                    if side.current is None:  # else a fresh one was refused: the present one goes on
                        wait_us = REFUSED_AGAIN_US if message.retry else REFUSED_FOR_GOOD_US
                        side.retry_us = arrived_us + wait_us
                case Ping():
                    resident_us = self._clock_us() - arrived_us
                    connection.control(
                        Pong(nonce=message.nonce, arrived_mono_us=arrived_us, resident_us=resident_us)
                    )
                case _:
                    self._tell(Received(side.lane, connection.number, message, arrived_us))

    def _welcomed(self, side: _Lane, connection: Connection, welcome: Welcome) -> None:
        now_us = self._clock_us()
        connection.enter(State.READY, now_us)
        side.backoff.reset()
        side.retry_us = None
        if side.current is not None and side.current.number > connection.number:
            connection.superseded_us = now_us  # a newer one was quicker
            return
        if side.current is not None and side.current is not connection:
            side.current.superseded_us = now_us
        side.current = connection
        for other in side.connections:
            if other.state in (State.CONNECTING, State.GREETING):
                other.broke("another connection was quicker")
        with self._lock:
            side.ready = True
        self._tell(Connected(side.lane, connection.number, welcome))

    def _send_queued(self, side: _Lane) -> None:
        while True:
            with self._lock:
                if not side.outbound:
                    return
                group = side.outbound.popleft()
            if side.current is None:
                self._drop(side, group)
                continue
            for place, message in enumerate(group):
                if side.current.send(message):
                    continue
                head = group[0]
                if place > 0 and isinstance(head, FrameHead):  # the body will not follow
                    side.current.control(Cancel(stream=head.stream, seq=head.seq))
                self._drop(side, group)
                break

    def _drop(self, side: _Lane, group: tuple[ToWorker, ...]) -> None:
        """Report what was accepted and could not be handed to the network; control messages are not missed."""
        for message in group:
            if isinstance(message, FrameHead | FrameBody | BulkBatch | Have):
                self._tell(Dropped(side.lane, message))

    def _end_old(self, side: _Lane, now_us: int) -> None:
        superseded = [c for c in side.connections if c.superseded_us is not None]
        for connection in superseded[:-MOST_SUPERSEDED]:
            connection.broke("superseded")
        for connection in tuple(side.connections):
            if connection.overdue(now_us):
                connection.broke("no answer from the worker")
            old = connection.superseded_us
            if old is not None and now_us - old > SUPERSEDED_FOR_US:
                connection.broke("superseded")
            if connection.state is not State.BROKEN:
                continue
            side.connections.remove(connection)
            self._bytes_closed += connection.bytes_sent
            connection.close()
            if connection is side.current:
                self._lost(side, connection)
            if side.current is None and not side.connections and side.retry_us is None:
                side.retry_us = now_us + side.backoff.next_us()

    def _lost(self, side: _Lane, connection: Connection) -> None:
        """The newest welcomed connection ended; an older one that still lives takes its place."""
        ready = [c for c in side.connections if c.state is State.READY]
        side.current = ready[-1] if ready else None
        if side.current is not None:
            side.current.superseded_us = None
            return
        with self._lock:
            side.ready = False
            left, side.outbound = side.outbound, deque()
        for group in left:
            self._drop(side, group)
        self._tell(Disconnected(side.lane, connection.number, connection.reason))

    def _open_due(self, side: _Lane, now_us: int) -> None:
        fresh = False
        if side.lane is Lane.LIVE:
            with self._lock:
                fresh, self._fresh_wanted = bool(self._fresh_wanted), 0
            trying = sum(c.state is not State.READY for c in side.connections)
            fresh = fresh and trying < MOST_FRESH
        due = side.retry_us is not None and now_us >= side.retry_us
        if not (fresh or due):
            return
        side.retry_us = None
        self._numbers += 1
        side.connections.append(
            Connection(
                self._context, number=self._numbers, lane=side.lane, address=self._address, now_us=now_us
            )
        )
