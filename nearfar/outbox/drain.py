"""Sends an outbox to a worker without its agent, with the agent's own writer, link and acknowledgements.

Nothing leaves the file before the worker's store has it, so a drain may be ended at any moment and run again.
"""

import logging
import threading
from collections.abc import Callable

from edge.links.base import Connected, Disconnected, Dropped, Link, LinkEvent, Received, Refused, Sent
from edge.outbox.sending.payload_uplink import Message
from edge.outbox.stats import OutboxStats
from edge.outbox.writer import OutboxWriter
from nearfar.outbox.custody import Custody
from pipelines.errors import Retryable
from pipelines.frame import new_run
from pipelines.runtime import monotonic_us
from protos.wire.bulk import Ack, BulkBatch, Need
from protos.wire.session import Error, Hello, Lane

log = logging.getLogger(__name__)

LOOK_S = 0.05
AS_FAST_AS_IT_IS_ACKED = 1e9
"""Bytes a second: no live frame is in the way."""


class Drain:
    """Raises Retryable when no worker answers for `patience_s`, or one refuses for a reason that stays, or takes nothing
    in that time. `said`: what it refused last with, empty since it took something."""

    def __init__(self, held: Custody, link: Link, *, agent: str, patience_s: float) -> None:
        self._store = held.store
        self._link = link
        self._agent = agent
        self._run = new_run()
        self._patience_us = int(patience_s * 1e6)
        self._writer = OutboxWriter(
            store=held.store,
            agent=agent,
            run=self._run,
            clock_us=monotonic_us,
            on_committed=lambda _: None,  # nobody waits for a commit
            send=self._send,
            open_within_s=None,  # a person waits, and nothing else can be done meanwhile
        )
        self._connected = False
        self._why = ""
        self._for_good = ""
        self.said = ""
        self._taken_us = 0

    def run(self, stop: threading.Event, progress: Callable[[OutboxStats], None]) -> OutboxStats:
        """Until nothing is left or `stop`; what is left then."""
        self._writer.start()
        try:
            progress(OutboxStats.of(self._store.ledger(), ranges=0))
            hello = Hello(agent=self._agent, run=self._run, lane=Lane.LIVE, software="nearfar outbox drain")
            self._link.start(hello, self._happened)
            heard_us = monotonic_us()
            self._writer.flush()
            # Looked at after the wait, when what was said before it has been handled: never right after saying it.
            while not stop.wait(LOOK_S) and not self._done():
                self._writer.observe_live(
                    in_flight_bytes=0, over_budget=True, bytes_per_s=AS_FAST_AS_IT_IS_ACKED, queueing_us=0
                )
                self._writer.flush()  # it is heard now, with what was said before
                progress(self._writer.stats())
                now_us = monotonic_us()
                heard_us = now_us if self._connected and not self.said else max(heard_us, self._taken_us)
                if self._for_good or now_us - heard_us >= self._patience_us:
                    raise Retryable(self._for_good or self._words())
        finally:
            self._link.close()
            self._writer.stop()
        return self._writer.stats()

    def _words(self) -> str:
        if self._connected:
            return f"the worker takes nothing more now: {self.said}"
        return self._why or "no worker answers there"

    def _done(self) -> bool:
        """Which payloads a worker would take is known once it has welcomed us."""
        return self._writer.empty() and (self._connected or self._writer.stats().payloads_pending == 0)

    def _send(self, message: Message) -> Sent:
        return self._link.send(message, lane=Lane.BULK)

    def _happened(self, event: LinkEvent) -> None:
        match event:
            case Connected(lane=Lane.BULK):
                self._writer.reachable(connected=True, limits=event.welcome.limits)
                self._connected, self._why = True, ""  # last: what it takes is told by then
            case Disconnected(lane=Lane.BULK):
                self._connected, self._why = False, event.reason
                self._writer.reachable(connected=False)
            case Refused(lane=Lane.BULK):
                self._why = event.error.text
                self._for_good = "" if event.error.retry else event.error.text
            case Dropped(message=BulkBatch() as batch):
                self._writer.dropped(batch.batch)
            case Received(lane=Lane.BULK, message=Ack() as ack):
                self.said, self._taken_us = "", monotonic_us()
                self._writer.acked_bulk(ack)
            case Received(lane=Lane.BULK, message=Need() as need):
                self._writer.needed(need)
            case Received(lane=Lane.BULK, message=Error() as error) if error.batch or error.have:
                self.said = error.text
                self._writer.refused(error)
            case Received(message=Error() as error):
                log.warning("the worker says: %s", error.text)
            case _:
                log.debug("nothing to do for %s", type(event).__name__)
