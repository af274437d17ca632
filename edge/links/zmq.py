"""The ZeroMQ link: `zmq://host:port`, one DEALER per connection, live and bulk on connections of their own.

Whoever sends hands its messages to the network on its own thread; one thread reads, connects and reports. What
cannot be handed over at once is refused: no stale queue builds up below us.
"""

import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable

import zmq

from edge.links.base import Deliver, Received, Sent
from edge.links.driven import DrivenLink
from edge.links.driver import Driver
from edge.links.lane import LaneMessage
from edge.links.names import LookUp, Names, look_up
from edge.links.zmq_connection import ZmqConnection
from pipelines.errors import Rejected
from protos.wire import multipart
from protos.wire.live import Result
from protos.wire.messages import ToWorker
from protos.wire.session import Hello, Lane, Welcome

log = logging.getLogger(__name__)

CLOSE_WITHIN_S = 0.5
CONGESTED_WAIT_MS = 5


class ZmqLink(DrivenLink):
    """A link to the worker at `url`; see `edge.links.base.Link` for the contract."""

    def __init__(
        self, *, name: str, url: str, clock_us: Callable[[], int], look_up: LookUp = look_up
    ) -> None:
        self._name = name
        self._names = Names(url.removeprefix("zmq://"), look_up=look_up)
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._driver: Driver[ZmqConnection] = Driver(
            name=name, dial=self._dial, clock_us=clock_us, several=lambda: self._names.several
        )
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._polled: dict[int, ZmqConnection] = {}  # by number
        self._owner: dict[int, ZmqConnection] = {}  # by file descriptor
        self._poll = select.poll()
        self._poll.register(self._wake_fd, select.POLLIN)
        self._closing = False
        self.bad_messages = 0
        self._thread = threading.Thread(target=self._run, name=f"link-{name}", daemon=True)

    @property
    def name(self) -> str:
        return self._name

    def start(self, hello: Hello, deliver: Deliver) -> None:
        self._driver.begin(hello, deliver)
        self._context = zmq.Context[zmq.Socket[bytes]](1)
        self._thread.start()

    def send(self, *messages: ToWorker, lane: Lane = Lane.LIVE) -> Sent:
        judged = Sent.DOWN if self._closing else self._driver.judge(lane, messages)
        if judged is not Sent.ACCEPTED:
            return judged
        connection = self._driver.current(lane)
        if connection is None:
            return Sent.DOWN
        sent, look = connection.send(messages)
        if look:
            self._wake()
        return Sent.ACCEPTED if sent else Sent.FULL

    def close(self) -> None:
        with self._lock:
            already, self._closing = self._closing, True
        if already:
            return
        if self._thread.ident is not None:
            self._wake()
            self._thread.join(CLOSE_WITHIN_S)
            if not self._thread.is_alive():  # else term would wait for its sockets for ever
                self._context.term()
        with self._lock:
            os.close(self._wake_fd)
            self._wake_fd = -1

    # -- the I/O thread -----------------------------------------------------------------------------------

    def _wake(self) -> None:
        with self._lock:
            if self._wake_fd >= 0:
                os.eventfd_write(self._wake_fd, 1)

    def _run(self) -> None:
        try:
            while not self._closing:
                for connection, may_have_ended in self._wait():
                    self._serve(connection, look_at_monitor=may_have_ended)
        except Exception:
            log.exception("link %s: its thread failed", self._name)
        self._closing = True
        self._driver.say_goodbye()
        self._names.close()
        self._driver.close()

    def _dial(self, lane: Lane, number: int) -> ZmqConnection:
        connection = ZmqConnection(self._context, number=number, lane=lane)
        if self._names.is_address:
            connection.reach(self._names.next(lane))
            return connection
        asking = threading.Thread(target=self._ask, args=(connection,), name=f"dial-{number}", daemon=True)
        try:
            asking.start()
        except RuntimeError:  # no thread left: nobody would ever close this connection
            connection.close()
            raise
        return connection

    def _ask(self, connection: ZmqConnection) -> None:
        """Whoever answers for names may take its time: this connection waits for it, and no other."""
        try:
            connection.reach(self._names.next(connection.lane))
        except OSError as error:
            connection.broken = connection.broken or str(error)
        self._wake()

    def _wait(self) -> list[tuple[ZmqConnection, bool]]:
        """The connections to be served, and whether their monitors have something to say: those with news, or all
        when it was woken, nothing happened, or one is new.

        A descriptor tells only of what comes after its socket was found empty, so a new one is looked at at once.
        """
        wait_us = self._driver.wait_us()
        if wait_us == 0:
            self._driver.look()
            wait_us = self._driver.wait_us()
        connections = self._driver.connections
        changed = self._polled != connections
        if changed:
            self._watch(tuple(connections.values()))
        wait_ms = 0 if changed else -(-wait_us // 1000)
        for connection in self._polled.values():
            if connection.broken:  # noticed while sending: no event will tell of it
                wait_ms = 0
            elif connection.waits_to_send:
                wait_ms = min(wait_ms, CONGESTED_WAIT_MS)
        ready = [fd for fd, _ in self._poll.poll(wait_ms)]
        if ready and self._wake_fd not in ready and not changed:
            return [(self._owner[fd], fd == self._owner[fd].monitor_fd) for fd in ready]
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake_fd)
        return [(connection, True) for connection in self._polled.values()]

    def _watch(self, connections: tuple[ZmqConnection, ...]) -> None:
        for fd in self._owner:
            self._poll.unregister(fd)
        self._polled = {c.number: c for c in connections}
        self._owner = {fd: c for c in connections for fd in (c.dealer_fd, c.monitor_fd)}
        for fd in self._owner:
            self._poll.register(fd, select.POLLIN)

    def _serve(self, connection: ZmqConnection, *, look_at_monitor: bool) -> None:
        """What the monitor says, then what waits to be sent, then what came, to the last message.

        In this order: sending may use up the descriptor's word that something came in.
        """
        if connection.number not in self._driver.connections:
            return  # ended by what another one brought
        for shaken in connection.happened() if look_at_monitor else ():
            if shaken:
                self._driver.shaken(connection)
            else:
                connection.broken = connection.broken or "connection lost"
        connection.flush()
        self._read(connection, surely=not look_at_monitor)
        if connection.broken and connection.number in self._driver.connections:
            self._driver.lost(connection, connection.broken)

    def _read(self, connection: ZmqConnection, *, surely: bool) -> None:
        # A message may end this connection; what comes after it is nobody's.
        while connection.number in self._driver.connections:
            parts = connection.receive(surely=surely)
            if parts is None:
                return
            surely = False
            arrived_us = self._clock_us()
            try:
                message = multipart.unpack_to_agent(parts, agent=self._driver.agent)
            except Rejected as error:
                self.bad_messages += 1
                log.debug("link %s: %s", self._name, error)
                continue
            if isinstance(message, Result):
                connection.answered(message)
            elif isinstance(message, Welcome):
                connection.welcomed(message)
            if isinstance(message, LaneMessage):
                self._driver.heard(connection, message, arrived_us)
            else:
                self._driver.tell(Received(connection.lane, connection.number, message, arrived_us))
