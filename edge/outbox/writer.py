"""The outbox writer: one thread that owns the store, fed by an inbox.

Every public method only enqueues and returns at once, so the dispatcher never waits for a disk. All that is
queued when the thread wakes is committed as one group. Errors of the disk never leave this thread: they show in
`stats().last_error`, and work goes on when the disk does.
"""

import logging
import threading
from collections.abc import Callable, Iterable

from edge.links.base import Sent
from edge.outbox.hang_guard import HangGuard
from edge.outbox.keeper import Keeper
from edge.outbox.memory import PRIORITY_NUMBERS
from edge.outbox.payload import PayloadEntry
from edge.outbox.sending.payload_uplink import Message
from edge.outbox.stats import OutboxStats
from edge.outbox.store import OutboxStore
from edge.outbox.writer_inbox import Event, WriterInbox
from pipelines.errors import NearfarError
from pipelines.frame import FrameId
from pipelines.result import GapReason, Record
from protos.wire.bulk import Ack, Need
from protos.wire.session import Error, Limits

log = logging.getLogger(__name__)

FINISH_AGAIN_S = 0.05
OPEN_WITHIN_S = 10.0
"""A gateway whose disk hangs longer than this as it starts answers all the same."""


class OutboxWriter:
    """Owns `store` from `start` on. `on_committed`, `send` and `overdue` (a batch was not acknowledged in time) are
    called from the writer's thread and must not block. `clock_us` is the monotonic clock."""

    def __init__(
        self,
        *,
        store: OutboxStore,
        agent: str,
        run: bytes,
        clock_us: Callable[[], int],
        on_committed: Callable[[FrameId], None],
        send: Callable[[Message], Sent],
        overdue: Callable[[], None] = lambda: None,
        grace_us: int = 1_000_000,
        max_memory_records: int = 4096,
        open_within_s: float | None = OPEN_WITHIN_S,
    ) -> None:
        self._store = store
        self._clock_us = clock_us
        self._open_within_s = open_within_s
        self._keeper = Keeper(
            store=store,
            agent=agent,
            run=run,
            clock_us=clock_us,
            on_committed=on_committed,
            send=send,
            overdue=overdue,
            grace_us=grace_us,
            max_memory_records=max_memory_records,
        )
        self._lock = threading.Lock()
        self._handled = 0  # written by the thread, together with _stats
        self._stats = OutboxStats()
        self.at_start = OutboxStats()
        """What the store held before this run, once it is open."""
        self._guard = HangGuard(run=run, most_records=max_memory_records)
        self._inbox = WriterInbox(self._guard, clock_us)
        self._give_up_us: int | None = None
        self._ended_well = False
        self._opened = threading.Event()
        self._refusal: NearfarError | None = None
        self._unheard = False  # `start` has gone on before the store was open
        self._thread = threading.Thread(target=self._run, name="outbox-writer", daemon=True)

    # -- life ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the store on the writer's thread; ConfigError if a newer version wrote it. A disk that hangs is waited for
        `open_within_s` (None: for ever): what comes from then on waits in memory."""
        self._guard.begins(self._clock_us())
        self._thread.start()
        if not self._opened.wait(self._open_within_s):
            self._unheard = True  # before the last look: one of the two threads tells of a refusal
            if not self._opened.is_set():
                log.error(
                    "the outbox is still busy with its disk; answers go on, their records wait in memory"
                )
                return
        if self._refusal is not None:
            self._thread.join()
            raise self._refusal

    def reserve_now(self, streams: Iterable[str], *, timeout_us: int = 1_000_000) -> bool:
        """Reserve the first frames of `streams` and wait until that is written; False if it was not in time."""
        names = list(streams)
        written = threading.Event()

        def reserve(keeper: Keeper, now_us: int) -> None:
            for name in names:
                keeper.captured(name, 0)
            if keeper.commit(now_us):
                written.set()

        self._inbox.post(reserve)
        return written.wait(timeout_us / 1e6)

    def stop(self, timeout_us: int = 1_000_000) -> bool:
        """Everything into the store, marks exact, store closed; False if that did not work out in time."""
        if not self._thread.is_alive():
            return self._ended_well
        self._give_up_us = self._clock_us() + timeout_us
        self._inbox.end()
        self._thread.join(timeout_us / 1e6 + 0.5)
        return not self._thread.is_alive() and self._ended_well

    def stats(self) -> OutboxStats:
        """As of the writer's last turn; of one that hangs, what is known."""
        return self._guard.seen(self._stats, self._clock_us())

    @property
    def waiting(self) -> int:
        """Events in the inbox that the writer has not handled."""
        with self._lock:
            return self._inbox.posted - self._handled

    def empty(self) -> bool:
        """Whether nothing is left that the cloud must learn, counting what is still in the inbox."""
        if self._guard.hangs(self._clock_us()):
            return False
        with self._lock:
            return self._inbox.posted == self._handled and self._stats.empty

    # -- what it is told ----------------------------------------------------------------------------------

    def append(self, record: Record) -> None:
        """An answer given near, tracked or missed: commit it, then `on_committed(record.id)`."""
        came_us = self._clock_us()
        self._inbox.record(record.id, _priority(record), lambda keeper, _: keeper.append(record, came_us))

    def far_answered(self, record: Record) -> None:
        """An answer given far: kept in memory until the worker has it, in the store if it does not say so."""
        came_us = self._clock_us()
        self._inbox.record(
            record.id, _priority(record), lambda keeper, _: keeper.far_answered(record, came_us)
        )

    def keep_payload(self, entry: PayloadEntry) -> None:
        """A picture to keep and to send when nothing else is to go."""
        came_us = self._clock_us()
        self._inbox.payload(entry.bytes, lambda keeper, _: keeper.payloads.put(entry, came_us))

    def late_far(self, frame_id: FrameId) -> None:
        """A far result came after another answer was given; flags the record if it has not gone up."""
        self._inbox.post(lambda keeper, now_us: keeper.late_far(frame_id, now_us))

    def gap(self, *, stream: str, seq: int, reason: GapReason, detail: str = "") -> None:
        """A frame of this run that gets no record."""
        self._inbox.word(
            lambda to, now_us: to.gap(stream=stream, seq=seq, reason=reason, detail=detail, now_us=now_us)
        )

    def captured(self, stream: str, seq: int) -> None:
        """`seq` was given to a frame; reserves ahead. Call it for every frame, from any thread."""
        self._inbox.word(lambda to, _: to.captured(stream, seq), hurry=False)

    def settled(self, stream: str, seq: int) -> None:
        """The frame is answered and released."""
        self._inbox.word(lambda to, _: to.settled(stream, seq), hurry=False)

    def acked_live(self, ack: Ack) -> None:
        """An Ack of the live lane: far results the worker's store has."""
        self._inbox.post(lambda keeper, now_us: keeper.acked_live(ack, now_us))

    def acked_bulk(self, ack: Ack) -> None:
        """An Ack of the bulk lane: batches the worker's store has whole."""
        self._inbox.post(lambda keeper, now_us: keeper.acked_bulk(ack, now_us))

    def needed(self, need: Need) -> None:
        """A Need of the bulk lane: which payloads the worker wants, and from where."""
        self._inbox.post(lambda keeper, now_us: keeper.backfill.payloads.needed(need, now_us))

    def dropped(self, batch: int) -> None:
        """The link could not hand BulkBatch number `batch` to the network after all."""
        self._inbox.post(lambda keeper, now_us: keeper.backfill.dropped(batch, now_us))

    def refused(self, error: Error) -> None:
        """The worker had no room for a batch or an offer of the bulk lane: `error` says which."""
        self._inbox.post(lambda keeper, now_us: keeper.backfill.refused(error, now_us))

    def reachable(self, *, connected: bool, limits: Limits | None = None) -> None:
        """A connection of the bulk lane was welcomed, or the lane has none any more."""
        self._inbox.post(
            lambda k, now_us: k.backfill.reachable(connected=connected, limits=limits, now_us=now_us)
        )

    def live_sent(self, sent_us: int) -> None:
        """A frame left on the link that carries the backfill: chunks keep out of the way of the next."""
        self._inbox.pace(lambda keeper, _: keeper.backfill.pacing.live_sent(sent_us))

    def observe_live(
        self,
        *,
        in_flight_bytes: int,
        over_budget: bool,
        bytes_per_s: float,
        queueing_us: int,
        rtt_us: int = 0,
        offloaded: int = 0,
        far: int = 0,
    ) -> None:
        """How the live lane does, every 50 ms or so. `rtt_us`: the least. `offloaded`, `far`: frames sent, and answered."""

        def observe(keeper: Keeper, now_us: int) -> None:
            keeper.backfill.pacing.observe(
                in_flight_bytes=in_flight_bytes,
                over_budget=over_budget,
                bytes_per_s=bytes_per_s,
                queueing_us=queueing_us,
                rtt_us=rtt_us,
                now_us=now_us,
            )
            keeper.backfill.pacing.observe_far(offloaded=offloaded, far=far, now_us=now_us)

        self._inbox.pace(observe)

    def flush(self) -> None:
        """Let gaps and outcomes go up now instead of waiting for company: the clip has ended."""
        self._inbox.post(lambda keeper, _: keeper.flush())

    # -- the thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._keeper.open(self._clock_us())
        except NearfarError as error:
            self._refusal = error
            self._guard.refused(str(error))
            self._opened.set()
            if self._unheard:
                log.error("%s", error)  # noqa: TRY400 - words for a person, whom `start` did not wait to tell
            return
        due_us = self._turn()
        self._publish(0)
        self.at_start = self._stats
        self._opened.set()
        stopping = False
        while not stopping:
            self._guard.ends()
            events, stopping = self._inbox.take(max(0, due_us - self._clock_us()) / 1e6)
            said = self._guard.begins(self._clock_us())
            for event in [*events, said.tell]:
                self._handle(event)
            if not stopping:
                due_us = self._turn()
            self._publish(len(events))
        self._finish()

    def _handle(self, event: Event) -> None:
        try:
            event(self._keeper, self._clock_us())
        except Exception:  # one event that cannot be handled must not end the outbox
            log.exception("the outbox could not handle an event")

    def _turn(self) -> int:
        now_us = self._clock_us()
        try:
            return self._keeper.turn(now_us)
        except Exception:  # a callback's fault must not end the outbox
            log.exception("the outbox could not finish a turn")
            return now_us + 1_000_000

    def _finish(self) -> None:
        try:
            while not self._keeper.finish(self._clock_us()):
                if self._give_up_us is None or self._clock_us() >= self._give_up_us:
                    log.error("the outbox could not write everything before the end")
                    break
                threading.Event().wait(FINISH_AGAIN_S)
            else:
                self._ended_well = True
        finally:
            self._store.close(self._clock_us())
            self._publish(0)
            self._guard.ends()

    def _publish(self, handled: int) -> None:
        with self._lock:
            self._handled += handled
            self._stats = self._keeper.stats()


def _priority(record: Record) -> int:
    return PRIORITY_NUMBERS[record.priority]
