"""The dispatcher's way to the worker: frames out through codec and link, link events back as decisions.

Knows what the wire needs and the scheduler must not: stream indexes, the far model's input, payloads.
Owned by the dispatcher thread; nothing here blocks.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from edge.answers import AnswerDesk
from edge.counters import Counters
from edge.encoder import Encoder
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


class FarPort:
    """`degraded` says in words why far is not there, empty while it is; `connections` counts live welcomes."""

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
    ) -> None:
        self._link = link
        self._encoder = encoder
        self._scheduler = scheduler
        self._outbox = outbox
        self._desk = desk
        self._counters = counters
        self._ports = {port.name: port for port in streams}
        self._names = [port.name for port in streams]
        self._pending = pending
        self._clock_us = clock_us
        self._name = next(iter(scheduler.ways))  # the one link an agent drives
        self._far_input = (0, 0)
        self.degraded = ""
        self.connections = 0

    # -- out ----------------------------------------------------------------------------------------------

    def encode(self, key: Key, rung_index: int) -> None:
        """Order the payload of a frame at a rung of the ladder: scaled to the far model's input, never up."""
        frame = self._pending[key].frame
        rung = self._scheduler.settings.ladder[rung_index]
        size = rung.size_px((frame.width_px, frame.height_px), self._far_input)
        self._encoder.submit(key, frame.picture, quality=rung.quality, size=size)

    def send(self, action: SendFrame) -> Sequence[Action]:
        """Head and body to the link; what the scheduler decides when it does not take them."""
        pending = self._pending[action.key]
        port = self._ports[action.key[0]]
        seq = action.key[1]
        payload, encoding = pending.payload, pending.encoding
        if payload is None or encoding is None:
            return self._scheduler.send_failed(action.key, "no payload", self._clock_us(), link=action.link)
        pending.sent_us = self._clock_us()
        sent = self._link.send(
            live.FrameHead(
                stream=port.index,
                seq=seq,
                worker_budget_us=action.worker_budget_us,
                sent_mono_us=pending.sent_us,
                encoding=encoding,
                priority=port.priority,
                probe=action.probe,
            ),
            live.FrameBody(stream=port.index, seq=seq, data=payload),
        )
        if sent is not Sent.ACCEPTED:
            return self._scheduler.send_failed(
                action.key, f"link {sent.value}", self._clock_us(), link=action.link
            )
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
            case Connected(lane=Lane.LIVE):
                self.connections += 1
                self.degraded = ""
                model = self._desk.choose_model(event.welcome)
                self._far_input = (model.input_width_px, model.input_height_px)
                return self._scheduler.welcomed(self._name, event.connection, event.welcome.credit, now_us)
            case Connected():
                self._outbox.reachable(connected=True, limits=event.welcome.limits)
            case Disconnected(lane=Lane.LIVE):
                self.degraded = event.reason
                return self._scheduler.disconnected(self._name, event.reason, now_us)
            case Disconnected():
                self._outbox.reachable(connected=False)
            case Refused():
                if self.degraded != event.error.text:
                    log.warning("the worker refuses this agent: %s", event.error.text)
                self.degraded = event.error.text
            case Dropped(message=live.FrameBody() as body):
                key = self._key(body.stream, body.seq)
                return self._scheduler.send_failed(key, "queue below is full", now_us, link=self._name)
            case Dropped(message=bulk.BulkBatch() as batch):
                self._outbox.dropped(batch.batch)
            case Received():
                return self._received(event, now_us)
        return ()

    def _received(self, event: Received, now_us: int) -> Sequence[Action]:
        match event.message:
            case live.Result() as result:
                key = self._key(result.stream, result.seq)
                pending = self._pending.get(key)
                if pending is not None and pending.far is None:
                    pending.far, pending.far_arrived_us = result, event.arrived_us
                return self._scheduler.result(
                    key,
                    link=self._name,
                    timing=result.timing,
                    load=result.load,
                    now_us=event.arrived_us,
                )
            case live.Reject() as reject:
                self._counters.rejected[reject.reason.value] += 1
                key = self._key(reject.stream, reject.seq)
                return self._scheduler.rejected(
                    key, link=self._name, reason=reject.reason.value, load=reject.load, now_us=now_us
                )
            case session.Pong() as pong:
                return self._scheduler.pong(
                    self._name,
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
