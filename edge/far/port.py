"""The dispatcher's way to one worker: payloads out through its link, link events back as decisions.

Knows what the wire needs and the scheduler must not: stream indexes, payloads, which connection is whose.
Owned by the dispatcher thread; nothing here blocks.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from edge.far.accord import Accord
from edge.far.bulk_way import BulkWay
from edge.far.sight import DATA_BUDGET, LinkSight
from edge.flow.answer_desk import AnswerDesk
from edge.flow.pending import Pending
from edge.flow.stream_port import StreamPort
from edge.links.base import Connected, Disconnected, Dropped, Link, LinkEvent, Received, Refused, Sent
from edge.outbox.port import Outbox
from edge.scheduling.actions import Action, SendFrame
from edge.scheduling.key import Key
from edge.scheduling.scheduler import Scheduler
from edge.telemetry.counters import Counters
from pipelines.errors import Fatal
from pipelines.log_throttle import LogThrottle
from pipelines.result import AnsweredBy, Priority
from protos.wire import bulk, live, session
from protos.wire.live import Result
from protos.wire.messages import ToWorker
from protos.wire.session import Lane

log = logging.getLogger(__name__)


class FarPort:
    """Drives one link, the scheduler's way of that name. `degraded` says in words why far is not there, empty while it
    is; `connections` counts live welcomes of workers that were taken. A connection to a worker that is not in accord
    with the others is refused: nothing that comes on it is heard. `on_result` is called with every far result, however
    late."""

    def __init__(
        self,
        *,
        link: Link,
        scheduler: Scheduler,
        accord: Accord,
        bulk: BulkWay,
        outbox: Outbox,
        desk: AnswerDesk,
        counters: Counters,
        streams: Sequence[StreamPort],
        pending: Mapping[Key, Pending],
        clock_us: Callable[[], int],
        unix_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        on_result: Callable[[Key, Result], None] = lambda _, __: None,
    ) -> None:
        self._on_result = on_result
        self._link = link
        self._way = scheduler.ways[link.name]
        self._scheduler = scheduler
        self._accord = accord
        self._bulk = bulk
        self._outbox = outbox
        self._desk = desk
        self._counters = counters
        self._ports = {port.name: port for port in streams}
        self._names = [port.name for port in streams]
        self._pending = pending
        self._clock_us = clock_us
        self._trouble = LogThrottle(log, clock_us=clock_us)
        self._unix_us = unix_us  # for people; nothing is decided by it
        # Connections the link was told to close, the last of them: nothing more comes once they are.
        self._turned_down: deque[int] = deque(maxlen=64)
        self._refused_words = ""
        self.degraded = ""
        self.connections = 0

    @property
    def name(self) -> str:
        return self._way.name

    @property
    def state(self) -> tuple[bool, bool, str]:
        """Connected, in budget, and why not: cheap enough to be asked after every event."""
        breaker = self._way.breaker
        now_us = self._clock_us()
        idle = breaker.connected and not breaker.in_budget and not breaker.silent(now_us)
        if idle and (left := self._way.budget.left_bytes(Priority.NORMAL, now_us)) is not None and left <= 0:
            return (True, False, DATA_BUDGET)  # nothing goes, so what pings say of the way is not why
        why = self.degraded or ("" if breaker.connected else self._link.unanswered) or breaker.reason
        return (breaker.connected, breaker.in_budget, why)

    @property
    def sent_and_given(self) -> tuple[int, int]:
        """Frames sent far and far answers given so far, over all links."""
        return (self._counters.offloaded, self._counters.answered[AnsweredBy.FAR])

    def sight(self, now_us: int) -> LinkSight:
        """The link at this moment."""
        connected, in_budget, reason = self.state
        link, settings, budget = self._way.link, self._scheduler.settings, self._way.budget
        measured = link.last_rtt
        frames_left_bytes = budget.left_bytes(Priority.NORMAL, now_us)
        return LinkSight(
            unix_us=self._unix_us(),
            link=self.name,
            connected=connected,
            in_budget=in_budget,
            reason=reason,
            rtt_us=None if measured is None else measured[0],
            rtt_age_us=0 if measured is None else now_us - measured[1],
            rtt_min_us=link.rtt_min_us(now_us),
            bytes_per_us=link.measured_bytes_per_us,
            in_flight_bytes=self._way.in_flight_bytes(now_us),
            near_guard_us=self._scheduler.near.estimate.guard_us,
            fall_back_above_us=settings.fall_back_above_us,
            return_below_us=settings.return_below_us,
            connections=self.connections,
            sent_bytes=self._link.bytes_sent(),
            too_large=self._link.too_large,
            bad_messages=self._link.bad_messages,
            selective=self._scheduler.selective(self.name),
            silent=self._way.breaker.silent(now_us),
            metered=self._way.metered,
            budget_left_bytes=budget.rest_bytes(now_us),
            budget_low=frames_left_bytes is not None and frames_left_bytes <= 0,
        )

    # -- out ----------------------------------------------------------------------------------------------

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
        pending.sent_over[action.link] = sent_us
        if self._bulk.current == self.name:
            self._outbox.live_sent(sent_us)
        pending.p_on_time = action.p
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
            case Connected():
                return self._connected(event, now_us)
            case Disconnected(lane=Lane.LIVE):
                self.degraded = event.reason
                self._accord.left(self.name)
                return self._scheduler.disconnected(self.name, event.reason, now_us)
            case Disconnected():
                self._bulk.lost(self.name, now_us)
            case Refused():
                self._bulk.refused(self.name, event.lane)
                if self.degraded != event.error.text:
                    log.warning("link %s: the worker refuses this agent: %s", self.name, event.error.text)
                self.degraded = event.error.text
            case Dropped(message=live.FrameBody() as body):
                key = self._key(body.stream, body.seq)
                return self._scheduler.send_failed(key, "queue below is full", now_us, link=self.name)
            case Dropped(message=bulk.BulkBatch() as batch):
                self._outbox.dropped(batch.batch)
                self._bulk.settled((batch.batch,), now_us)
            case Received(connection=number) if number in self._turned_down:
                log.debug("%s of a refused connection is not heard", type(event.message).__name__)
            case Received():
                return self._received(event, now_us)
        return ()

    def _connected(self, event: Connected, now_us: int) -> Sequence[Action]:
        """A worker is there; its bulk lane serves the outbox, its live lane the scheduler."""
        welcome = event.welcome
        if words := self._accord.about_store(welcome):
            self._refuse(event, words)
            return ()
        if event.lane is Lane.BULK:
            self._accord.relies_on(welcome)
            self._bulk.welcomed(self.name, welcome.limits, now_us)
            return ()
        try:
            model = self._desk.model_in(welcome)
        except Fatal as error:
            self._refuse(event, str(error))
            return ()
        if words := self._accord.about_model(self.name, model):
            self._refuse(event, words)
            return ()
        self._accord.relies_on(welcome)
        self._accord.joined(self.name, model)
        self._desk.use_model(model)
        if self.connections:  # what ended the other may have ended the bulk lane's too, in silence
            self._link.open_fresh(Lane.BULK)
        self.connections += 1
        self._bulk.taken(self.name)
        self.degraded = ""
        return self._scheduler.welcomed(self.name, event.connection, welcome.credit, now_us)

    def _refuse(self, event: Connected, words: str) -> None:
        """Whether far is there without this worker, the link says: an older connection goes on, or the lane is
        disconnected."""
        if self._refused_words != words:
            self._refused_words = words
            log.warning("link %s: not using this worker: %s", self.name, words)
        self._turned_down.append(event.connection)
        self._bulk.refused(self.name, event.lane)
        self._link.refuse(event.connection, words)

    def _received(self, event: Received, now_us: int) -> Sequence[Action]:
        match event.message:
            case live.Result() as result:
                key = self._key(result.stream, result.seq)
                pending = self._pending.get(key)
                if pending is not None and pending.far is None:
                    pending.far, pending.far_arrived_us = result, event.arrived_us
                self._on_result(key, result)
                return self._scheduler.result(
                    key, link=self.name, timing=result.timing, load=result.load, now_us=event.arrived_us
                )
            case live.Reject() as reject:
                self._counters.rejected[reject.reason.value] += 1
                key = self._key(reject.stream, reject.seq)
                return self._scheduler.rejected(
                    key,
                    link=self.name,
                    reason=reject.reason.value,
                    load=reject.load,
                    now_us=now_us,
                )
            case session.Pong() as pong:
                return self._scheduler.pong(
                    self.name,
                    pong.nonce,
                    resident_us=pong.resident_us,
                    load=pong.load,
                    credit=pong.credit,
                    now_us=event.arrived_us,
                )
            case bulk.Ack() as ack:
                if event.lane is Lane.BULK:
                    self._outbox.acked_bulk(ack)
                    self._bulk.settled(ack.batches, now_us)
                else:
                    self._outbox.acked_live(ack)
            case bulk.Need() as need:
                self._outbox.needed(need)
            case session.Error() as error if error.batch or error.have:
                if self._bulk.current == self.name:  # else another worker has the backfill by now
                    self._outbox.refused(error)
                self._bulk.settled((error.batch,), now_us)
            case session.Error() as error:
                words = f"the worker says: {error.text}"
                self._trouble.failed(f"link {self.name}:", words, kind=error.reason.value)
            case _:
                log.debug("nothing to do for %s", type(event.message).__name__)
        return ()

    def _key(self, index: int, seq: int) -> Key:
        """A stream index no stream has matches no frame."""
        return (self._names[index] if index < len(self._names) else "", seq)
