"""The link in memory: a gateway and a worker in one process, with the faults of a network at hand.

It keeps the contract of `edge.links.base.Link`. Messages go through the wire's own packing, so what a real
wire would refuse or lose is refused or lost here too. `cut`, `stall` and `set_delay` are what a bad link
does; `heal` and `resume` end it. Its thread alone opens and ends connections and calls `deliver`.
"""

import logging
import threading
from collections.abc import Callable

from edge.links.base import Deliver, Sent
from edge.links.driven import DrivenLink
from edge.links.driver import Driver
from edge.links.memory_connection import MOST_QUEUED, Air, MemoryConnection, WorkerEnd
from pipelines.errors import NearfarError, Rejected
from protos.endpoint import Endpoint
from protos.wire import multipart
from protos.wire.messages import ToAgent, ToWorker
from protos.wire.session import Hello, Lane

log = logging.getLogger(__name__)

CLOSE_WITHIN_S = 0.5


class MemoryLink(DrivenLink):
    """A link to `endpoint` in this process; `delay_us` is the way in one direction."""

    def __init__(
        self, *, name: str, endpoint: Endpoint, clock_us: Callable[[], int], delay_us: int = 0
    ) -> None:
        self._name = name
        self._endpoint = endpoint
        self._clock_us = clock_us
        self._air = Air(clock_us=clock_us, delay_us=delay_us)
        self._driver: Driver[MemoryConnection] = Driver(
            name=name, dial=self._dial, clock_us=clock_us, greets_at_once=True
        )
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
        with self._air.changed:
            connection = self._driver.current(lane)
            if connection is None or self._closing:
                return Sent.DOWN
            judged = self._driver.judge(lane, messages)
            if judged is not Sent.ACCEPTED:
                return judged
            if connection.up and len(connection.up) + len(messages) > MOST_QUEUED:
                return Sent.FULL
            for message in messages:
                self._air.put(connection.up, message)
        return Sent.ACCEPTED

    def close(self) -> None:
        with self._air.changed:
            self._closing = True
            self._air.changed.notify()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_WITHIN_S)

    def _wake(self) -> None:
        with self._air.changed:
            self._air.changed.notify()

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
                for connection in tuple(self._driver.connections.values()):
                    connection.broken = connection.broken or "connection lost"
            air.changed.notify()

    # -- the link's thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._sleep():
                for connection in tuple(self._driver.connections.values()):
                    self._serve(connection)
                self._driver.look()
            for connection in self._driver.say_goodbye():
                self._carry_up(connection)
        except Exception:
            log.exception("link %s: its thread failed", self._name)
        with self._air.changed:
            self._closing = True
        self._driver.close()

    def _dial(self, lane: Lane, number: int) -> MemoryConnection:
        return MemoryConnection(self._air, number=number, lane=lane)

    def _sleep(self) -> bool:
        """Until there is something to do; False when the link is closing."""
        with self._air.changed:
            while not self._closing:
                wait_us = self._wait_us()
                if wait_us <= 0:
                    break
                self._air.changed.wait(wait_us / 1e6)
            return not self._closing

    def _wait_us(self) -> int:
        connections = self._driver.connections.values()
        dues = [due for c in connections if (due := c.due_us()) is not None]
        return min(self._driver.wait_us(), min(dues) - self._clock_us() if dues else 1 << 62)

    def _serve(self, connection: MemoryConnection) -> None:
        self._carry_up(connection)
        for reply in self._air.arrived(connection.down):
            self._reach_agent(connection, reply)
        if connection.ended:
            self._driver.lost(connection, connection.ended)

    def _carry_up(self, connection: MemoryConnection) -> None:
        for sent in self._air.arrived(connection.up):
            self._reach_worker(connection, sent)

    def _reach_worker(self, connection: MemoryConnection, message: ToWorker) -> None:
        parts = multipart.pack_to_worker(message)
        connection.bytes_sent += sum(len(part) for part in parts)
        session = connection.session
        if session is None:
            session = connection.session = self._endpoint.open(WorkerEnd(connection))
        arrived_us = self._clock_us()
        try:
            session.receive(multipart.unpack_to_worker(parts, agent=session.agent), arrived_us)
        except NearfarError as error:
            session.refuse(str(error))
        except Exception:  # the worker's fault is the worker's: the link lives on
            log.exception("a message of agent %r could not be served", session.agent)
            session.refuse("this message could not be served; the worker's log says why")

    def _reach_agent(self, connection: MemoryConnection, sent: ToAgent) -> None:
        arrived_us = self._clock_us()
        try:
            message = multipart.unpack_to_agent(multipart.pack_to_agent(sent), agent=self._driver.agent)
        except Rejected as error:
            self.bad_messages += 1
            log.debug("link %s: %s", self._name, error)
            return
        self._driver.heard(connection, message, arrived_us)
