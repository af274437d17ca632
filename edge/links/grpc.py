"""The gRPC link: `grpc://host:port`, one bidirectional stream per connection, each on a TCP connection of its own.

One thread of the link decides; each connection reads and delivers on a thread of its own, and gRPC sends on
another. A frame that the network does not take is refused at `send`: no stale queue builds up below us.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue

from edge.links.base import Deliver, Dropped, Received, Sent
from edge.links.driven import DrivenLink
from edge.links.driver import Driver
from edge.links.grpc_connection import GrpcConnection, load_grpc
from edge.links.lane import LaneMessage
from edge.links.names import LookUp, Names, look_up
from pipelines.errors import Rejected
from protos.wire import envelope
from protos.wire.bulk import BulkBatch, Have
from protos.wire.live import Buffer, FrameBody, FrameHead, Result
from protos.wire.messages import ToWorker
from protos.wire.session import Hello, Lane, Welcome

log = logging.getLogger(__name__)

GOODBYE_WITHIN_S = 0.1
CLOSE_WITHIN_S = 0.5
READER_WITHIN_S = 0.05


class GrpcLink(DrivenLink):
    """A link to the worker at `url`; see `edge.links.base.Link` for the contract."""

    def __init__(
        self, *, name: str, url: str, clock_us: Callable[[], int], look_up: LookUp = look_up
    ) -> None:
        self._name = name
        self._authority = url.removeprefix("grpc://")
        self._names = Names(self._authority, look_up=look_up)
        self._clock_us = clock_us
        self._grpc = load_grpc()
        self._driver: Driver[GrpcConnection] = Driver(
            name=name,
            dial=self._dial,
            clock_us=clock_us,
            greets_at_once=True,
            several=lambda: self._names.several,
        )
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._closing = False
        self.bad_messages = 0
        self._thread = threading.Thread(target=self._run, name=f"link-{name}", daemon=True)

    @property
    def name(self) -> str:
        return self._name

    def start(self, hello: Hello, deliver: Deliver) -> None:
        self._driver.begin(hello, deliver)
        self._thread.start()

    def send(self, *messages: ToWorker, lane: Lane = Lane.LIVE) -> Sent:
        connection = self._driver.current(lane)
        if connection is None or self._closing:
            return Sent.DOWN
        judged = self._driver.judge(lane, messages)
        if judged is not Sent.ACCEPTED:
            return judged
        return Sent.ACCEPTED if connection.send(messages) else Sent.FULL

    def close(self) -> None:
        self._closing = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_WITHIN_S)

    # -- a connection's reading thread ----------------------------------------------------------------------

    def came(self, connection: GrpcConnection, data: Buffer) -> None:
        arrived_us = self._clock_us()
        try:
            message = envelope.unpack_to_agent(bytes(data), agent=self._driver.agent)
        except Rejected as error:
            self.bad_messages += 1
            log.debug("link %s: %s", self._name, error)
            return
        if isinstance(message, Result):
            connection.answered(message)
        elif isinstance(message, Welcome):
            connection.welcomed(message)
        if isinstance(message, LaneMessage):
            self._inbox.put(partial(self._driver.heard, connection, message, arrived_us))
        else:  # straight to the owner: another thread's turn would cost more than the message
            self._driver.tell(Received(connection.lane, connection.number, message, arrived_us))

    def ended(self, connection: GrpcConnection, reason: str) -> None:
        self._inbox.put(partial(self._driver.lost, connection, reason))

    # -- the link's thread ----------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._inbox.put(_nothing)

    def _run(self) -> None:
        try:
            while not self._closing:
                self._driver.look()
                self._happened(self._driver.wait_us())
            self._say_goodbye()
        except Exception:
            log.exception("link %s: its thread failed", self._name)
        self._closing = True
        connections = tuple(self._driver.connections.values())
        self._names.close()
        self._driver.close()
        for connection in connections:
            connection.wait(READER_WITHIN_S)

    def _happened(self, wait_us: int) -> None:
        """Do what the reading threads report; wait for the first report, not for more."""
        try:
            self._inbox.get(timeout=wait_us / 1e6)()
            while True:
                self._inbox.get_nowait()()
        except Empty:
            return

    def _say_goodbye(self) -> None:
        end_s = time.monotonic() + GOODBYE_WITHIN_S
        told = self._driver.say_goodbye()
        for connection in told:
            connection.finish()
        for connection in told:
            connection.wait(max(0.0, end_s - time.monotonic()))

    def _dial(self, lane: Lane, number: int) -> GrpcConnection:
        return GrpcConnection(
            grpc=self._grpc,
            number=number,
            lane=lane,
            authority=self._authority,
            address=partial(self._names.next, lane),
            listener=self,
            dropped=partial(self._drop, lane),
        )

    def _drop(self, lane: Lane, message: ToWorker) -> None:
        """Report what was accepted and could not be handed to the network; control messages are not missed."""
        if isinstance(message, FrameHead | FrameBody | BulkBatch | Have):
            self._driver.tell(Dropped(lane, message))


def _nothing() -> None:
    """What wakes the thread up."""
