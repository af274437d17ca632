"""The dispatcher's way to the worker: frames out through codec and link, link events back as decisions.

Knows what the wire needs and the scheduler must not: stream indexes, the far model's input, payloads.
Owned by the dispatcher thread; nothing here blocks.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from edge.answers import AnswerDesk
from edge.counters import Counters
from edge.encoder import Encoder
from edge.link_sight import LinkSight
from edge.links.base import Connected, Disconnected, Dropped, Link, LinkEvent, Received, Refused, Sent
from edge.outbox.port import Outbox
from edge.pending import Pending
from edge.scheduling.actions import Action, SendFrame
from edge.scheduling.near_timeline import Key
from edge.scheduling.scheduler import Scheduler
from edge.stream_port import StreamPort
from protos.wire import bulk, live, session
from protos.wire.messages import ToWorker
from protos.wire.session import Lane

log = logging.getLogger(__name__)


def _unix_us() -> int:
    return time.time_ns() // 1000


class FarPort:
    """Drives the one link of an agent, the scheduler's way of that name. `degraded` says in words why far is not there,
    empty while it is; `connections` counts live welcomes of workers that were taken. A connection to a worker with
    another record store than the first is refused: nothing that comes on it is heard."""

    def __init__(
        self,
        *,
        link: Link,
        encoder: Encoder,
        scheduler: Scheduler,
        outbox: Outbox,
        desk: AnswerDesk,
        counters: Counters,
        streams: Sequence[StreamPort],
        pending: Mapping[Key, Pending],
        clock_us: Callable[[], int],
        unix_us: Callable[[], int] = _unix_us,
    ) -> None:
        self._link = link
        self._way = scheduler.ways[link.name]
        self._encoder = encoder
        self._scheduler = scheduler
        self._outbox = outbox
        self._desk = desk
        self._counters = counters
        self._ports = {port.name: port for port in streams}
        self._names = [port.name for port in streams]
        self._pending = pending
        self._clock_us = clock_us
        self._unix_us = unix_us  # for people; nothing is decided by it
        self._far_input = (0, 0)
        self._store_id = (
            ""  # of the first worker that welcomed us: what it acked is in there and nowhere else
        )
        # Connections the link was told to close, the last of them: nothing more comes once they are.
        self._turned_down: deque[int] = deque(maxlen=64)
        self._said_of_store = ""
        self.degraded = ""
        self.connections = 0

    @property
    def state(self) -> tuple[bool, bool, str]:
        """Connected, in budget, and why not: cheap enough to be asked after every event."""
        breaker = self._way.breaker
        return (breaker.connected, breaker.in_budget, self.degraded or breaker.reason)

    def sight(self, now_us: int) -> LinkSight:
        """The link at this moment."""
        connected, in_budget, reason = self.state
        link, settings = self._way.link, self._scheduler.settings
        measured = link.last_rtt
        return LinkSight(
            unix_us=self._unix_us(),
            link=self._link.name,
            connected=connected,
            in_budget=in_budget,
            reason=reason,
            rtt_us=None if measured is None else measured[0],
            rtt_age_us=0 if measured is None else now_us - measured[1],
            rtt_min_us=link.rtt_min_us(now_us),
            bytes_per_us=link.measured_bytes_per_us(now_us),
            in_flight_bytes=self._way.in_flight_bytes(now_us),
            near_guard_us=self._scheduler.near.estimate.guard_us,
            fall_back_above_us=settings.fall_back_above_us,
            return_below_us=settings.return_below_us,
            connections=self.connections,
            sent_bytes=self._link.bytes_sent(),
            too_large=self._link.too_large,
            bad_messages=self._link.bad_messages,
        )

    # -- out ----------------------------------------------------------------------------------------------

    def encode(self, key: Key, rung_index: int) -> None:
        """Order the payload of a frame at a rung of the ladder: scaled to the far model's input, never up."""
        pending = self._pending[key]
        frame, rung = pending.frame, self._scheduler.settings.ladder[rung_index]
        size = rung.size_px((frame.width_px, frame.height_px), self._far_input)
        pending.rung = rung_index
        self._encoder.submit(key, frame.picture, rung=rung_index, quality=rung.quality, size=size)

    def send(self, action: SendFrame) -> Sequence[Action]:
        """Head and body to the link; what the scheduler decides when it does not take them."""
        pending = self._pending[action.key]
        port = self._ports[action.key[0]]
        seq = action.key[1]
        payload, encoding = pending.payload, pending.encoding
        if payload is None or encoding is None:
            return self._scheduler.send_failed(action.key, "no payload", self._clock_us(), link=action.link)
        sent_us = self._clock_us()
        sent = self._link.send(
            live.FrameHead(
                stream=port.index,
                seq=seq,
                worker_budget_us=action.worker_budget_us,
                sent_mono_us=sent_us,
                encoding=encoding,
                priority=pending.priority,
                probe=action.probe,
                source_width_px=pending.frame.width_px,
                source_height_px=pending.frame.height_px,
            ),
            live.FrameBody(stream=port.index, seq=seq, data=payload),
        )
        if sent is not Sent.ACCEPTED:
            return self._scheduler.send_failed(
                action.key, f"link {sent.value}", self._clock_us(), link=action.link
            )
        pending.sent_us = sent_us
        self._counters.offloaded += 1
        self._counters.payload_bytes += len(payload)
        return ()

    def cancel(self, key: Key) -> None:
        self._tell(live.Cancel(stream=self._ports[key[0]].index, seq=key[1]))

    def ping(self, nonce: int) -> None:
        self._tell(session.Ping(nonce=nonce, sent_mono_us=self._clock_us()))

    def open_fresh(self) -> None:
        self._link.open_fresh()

    def _tell(self, message: ToWorker) -> None:
        """A small message; one that does not go is missed by nobody, its absence is measured."""
        self._link.send(message)

    # -- back ---------------------------------------------------------------------------------------------

    def happened(self, event: LinkEvent) -> Sequence[Action]:
        """What the scheduler decides about something the link reported."""
        now_us = self._clock_us()
        match event:
            case Connected() if not self._keeps_our_records(event.welcome):
                self._refuse(event)
            case Connected(lane=Lane.LIVE):
                if self.connections:  # what ended the other may have ended the bulk lane's too, in silence
                    self._link.open_fresh(Lane.BULK)
                self.connections += 1
                self.degraded = ""
                model = self._desk.choose_model(event.welcome)
                self._far_input = (model.input_width_px, model.input_height_px)
                return self._scheduler.welcomed(
                    self._way.name, event.connection, event.welcome.credit, now_us
                )
            case Connected():
                self._outbox.reachable(connected=True, limits=event.welcome.limits)
            case Disconnected(lane=Lane.LIVE):
                self.degraded = event.reason
                return self._scheduler.disconnected(self._way.name, event.reason, now_us)
            case Disconnected():
                self._outbox.reachable(connected=False)
            case Refused():
                if self.degraded != event.error.text:
                    log.warning("the worker refuses this agent: %s", event.error.text)
                self.degraded = event.error.text
            case Dropped(message=live.FrameBody() as body):
                key = self._key(body.stream, body.seq)
                return self._scheduler.send_failed(key, "queue below is full", now_us, link=self._way.name)
            case Dropped(message=bulk.BulkBatch() as batch):
                self._outbox.dropped(batch.batch)
            case Received(connection=number) if number in self._turned_down:
                log.debug("%s of a refused connection is not heard", type(event.message).__name__)
            case Received():
                return self._received(event, now_us)
        return ()

    def _keeps_our_records(self, welcome: session.Welcome) -> bool:
        self._store_id = self._store_id or welcome.store_id
        return welcome.store_id == self._store_id

    def _refuse(self, event: Connected) -> None:
        """A worker with another record store: its acks would be about records that are elsewhere.

        Whether far is there without it, the link says: an older connection goes on, or the lane is disconnected.
        """
        words = (
            f"this worker keeps its records in store {event.welcome.store_id}, the first one in "
            f"{self._store_id}: give all workers of this agent one store.url, or start the agent anew"
        )
        if self._said_of_store != words:
            self._said_of_store = words
            log.warning("not using this worker: %s", words)
        self._turned_down.append(event.connection)
        self._link.refuse(event.connection, words)

    def _received(self, event: Received, now_us: int) -> Sequence[Action]:
        match event.message:
            case live.Result() as result:
                key = self._key(result.stream, result.seq)
                pending = self._pending.get(key)
                if pending is not None and pending.far is None:
                    pending.far, pending.far_arrived_us = result, event.arrived_us
                return self._scheduler.result(
                    key,
                    link=self._way.name,
                    timing=result.timing,
                    load=result.load,
                    now_us=event.arrived_us,
                )
            case live.Reject() as reject:
                self._counters.rejected[reject.reason.value] += 1
                key = self._key(reject.stream, reject.seq)
                return self._scheduler.rejected(
                    key,
                    link=self._way.name,
                    reason=reject.reason.value,
                    load=reject.load,
                    now_us=now_us,
                )
            case session.Pong() as pong:
                return self._scheduler.pong(
                    self._way.name,
                    pong.nonce,
                    resident_us=pong.resident_us,
                    load=pong.load,
                    credit=pong.credit,
                    now_us=event.arrived_us,
                )
            case bulk.Ack() as ack:
                if event.lane is Lane.BULK:
                    self._outbox.acked_bulk(ack)
                else:
                    self._outbox.acked_live(ack)
            case session.Error() as error:
                log.warning("worker: %s", error.text)
            case _:
                log.debug("nothing to do for %s", type(event.message).__name__)
        return ()

    def _key(self, index: int, seq: int) -> Key:
        """A stream index no stream has matches no frame."""
        return (self._names[index] if index < len(self._names) else "", seq)
