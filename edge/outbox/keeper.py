"""What the outbox does with what it is told: one turn at a time, no thread and no clock of its own.

A turn moves what has waited long enough, commits everything at hand in one transaction, tells who waits, and
sends what the pacing allows. Answers given near go straight to the store. Answers given far stay in memory
until the worker's store has them (then only their outcome is left to send) or the grace is over (then they go
to the store whole). When the store fails for now, records wait in bounded memory, may go up from there, and
what does not fit is counted as lost and explained by a gap.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from edge.links.base import Sent
from edge.outbox.gaps import GapRanges
from edge.outbox.marks import Marks, interrupted
from edge.outbox.memory import Held, Pools, key_of
from edge.outbox.payload_pool import PayloadPool
from edge.outbox.sending.backfill import Backfill
from edge.outbox.sending.contents import OUTCOMES_EVERY_US
from edge.outbox.sending.payload_uplink import Message
from edge.outbox.stats import OutboxStats
from edge.outbox.store import Changes, OutboxStore
from edge.outbox.store_health import RETRY_FIRST_US, StoreHealth
from pipelines.errors import Retryable
from pipelines.frame import FrameId
from pipelines.result import GapReason, Record
from pipelines.windows import SampleWindow
from protos.wire.bulk import Ack

log = logging.getLogger(__name__)

COMMIT_AT_MOST = 1024
GAPS_EVERY_US = 2_000_000
SYNC_WITHIN_US = 50_000
UPTIME_EVERY_US = 30_000_000  # how much age a crash may forget while nothing else is written
IDLE_US = 1_000_000


class Keeper:
    """Used by one thread. `clock_us` only measures how long a commit took since its record came."""

    def __init__(
        self,
        *,
        store: OutboxStore,
        agent: str,
        run: bytes,
        clock_us: Callable[[], int],
        on_committed: Callable[[FrameId], None],
        send: Callable[[Message], Sent],
        grace_us: int,
        max_memory_records: int,
        overdue: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._run = run
        self._clock_us = clock_us
        self._on_committed = on_committed
        self._max_memory_records = max_memory_records
        self._pools = Pools(grace_us=grace_us, outcome_us=OUTCOMES_EVERY_US + grace_us)
        self._held = self._pools.held
        self._ranges = GapRanges()
        self._marks = Marks(run)
        pools = {"held": self._held, "outcomes": self._pools.outcomes}
        self.backfill = Backfill(store=store, agent=agent, send=send, on_overdue=overdue, **pools)
        self.payloads = PayloadPool(store)
        self._group = COMMIT_AT_MOST
        self._previous_ended = False
        self._flush = False
        self._last_commit_us = 0
        self._unsynced_us: int | None = None
        self._health = StoreHealth()
        self._durations = SampleWindow(500)
        self._lost = 0

    # -- what it is told ----------------------------------------------------------------------------------

    def open(self, now_us: int) -> None:
        """ConfigError for a store of a newer version; a store that fails for now is tried again later."""
        try:
            self._store.open(now_us)
        except Retryable as error:
            self._health.failed(error, now_us)

    def append(self, record: Record, now_us: int) -> None:
        self._held.put(Held(record, now_us, announce=True))

    def far_answered(self, record: Record, now_us: int) -> None:
        self._pools.far.put(Held(record, now_us))

    def late_far(self, frame_id: FrameId, now_us: int) -> None:
        """Flag a record that is still here; one that has gone up is corrected by the worker's own far result."""
        key = (frame_id.run, frame_id.stream, frame_id.seq)
        held = self._held.get(key)
        if held is not None:
            held.record = replace(held.record, late_far=True)
            return
        try:
            kept = self.backfill.reread(key, now_us)
        except Retryable as error:
            self._health.failed(error, now_us)
            return
        if kept is not None:
            self._held.put(replace(kept, record=replace(kept.record, late_far=True)))

    def gap(self, *, stream: str, seq: int, reason: GapReason, detail: str, now_us: int) -> None:
        self._ranges.add(stream=stream, seq=seq, reason=reason, detail=detail, now_us=now_us)

    def acked_live(self, ack: Ack, now_us: int) -> None:
        """The worker's store has these far results. Answers given near are not meant: they go up themselves."""
        for run, stream, seq in self._pools.far_acked(ack.records, now_us):
            self._explained(run, stream, seq)

    def acked_bulk(self, ack: Ack, now_us: int) -> None:
        """The worker's store has all that these batches carried, and exactly that is forgotten."""
        for run, stream, seq in self.backfill.acked(ack, now_us):
            self._explained(run, stream, seq)

    def captured(self, stream: str, seq: int) -> None:
        self._marks.captured(stream, seq)

    def settled(self, stream: str, seq: int) -> None:
        """Nothing more will be said of this frame; if nothing of it is kept here either, it is explained."""
        if not self._pools.keep((self._run, stream, seq)):
            self._marks.explained(stream, seq)

    def flush(self) -> None:
        """Do not wait for company: gaps and outcomes go with the next turn."""
        self._flush = True

    # -- turns --------------------------------------------------------------------------------------------

    def turn(self, now_us: int) -> int:
        """Do what is due; the time of the next turn if nothing happens before."""
        self._pools.expire(now_us, carried=self.backfill.carries)
        if self._health.may_write(now_us):
            self.commit(now_us)
        if self._health.fails:
            self._drop_excess(now_us)
        elif not self._held and self.payloads.commit(now_us):
            self._unsynced_us = self._unsynced_us or now_us
        self._sync(now_us)
        send_us: int | None = now_us + RETRY_FIRST_US
        try:
            send_us = self.backfill.turn(now_us, at_once=self._flush, store_fails=self._health.fails)
        except Retryable as error:
            self._health.failed(error, now_us)
        self._flush = False
        self._store.tidy()  # after all that somebody waits for
        return self._due_us(now_us, send_us)

    def commit(self, now_us: int, *, exact: bool = False) -> bool:
        """One transaction with all that is at hand; False if the store fails for now."""
        marks = self._marks.save()
        changes: Changes | None = None
        try:
            self._end_previous_runs(now_us)
            going = self._held.oldest(self._group)
            changes = self._changes(going, now_us, exact=exact)
            if changes is None:
                self._health.nothing_to_write()
                return True
            self._store.commit(changes, now_us)
        except Retryable as error:
            self._marks.restore(marks)
            self._health.failed(error, now_us)
            self._group = max(1, self._group // 8)  # a full disk may have room for fewer
            self.backfill.make_room(changes, most=self._group, now_us=now_us)
            return False
        self._health.wrote()
        self._group = min(2 * self._group, COMMIT_AT_MOST)
        self._last_commit_us = now_us
        self._unsynced_us = now_us if self._unsynced_us is None else self._unsynced_us
        self._marks.due = False
        self.backfill.committed()
        if changes.gaps:
            self._ranges.clear()
        done_us = self._clock_us()
        for held in going:
            self._held.pop(key_of(held.record))
            if held.announce:
                self._durations.add(done_us - held.at_us, done_us)
                self._on_committed(held.record.id)
        return True

    def finish(self, now_us: int) -> bool:
        """Everything into the store, marks exact; False if it fails for now."""
        self._pools.hold_all()
        while len(self._held) > self._group:
            if not self.commit(now_us):
                return False
            self._store.tidy()
        return self.commit(now_us, exact=True) and self.payloads.commit_all(now_us)

    def stats(self) -> OutboxStats:
        return OutboxStats.of(
            self._store.ledger(),
            ranges=len(self._ranges),
            uncommitted=len(self._held),
            lost=self._lost,
            far_pending=len(self._pools.far),
            outcomes_pending=len(self._pools.outcomes),
            commit_p99_us=int(self._durations.quantile(0.99, 0) or 0),
            writes=self._health.writes,
            last_error=self._health.last_error or self.payloads.last_error,
            payloads_uncommitted=len(self.payloads),
            payloads_lost=self.payloads.lost,
            **self.backfill.figures(),
        )

    # -- inside -------------------------------------------------------------------------------------------

    def _explained(self, run: bytes, stream: str, seq: int) -> None:
        if run == self._run:
            self._marks.explained(stream, seq)

    def _changes(self, going: list[Held], now_us: int, *, exact: bool) -> Changes | None:
        """None when nothing has to be written now."""
        since_us = self._ranges.since_us
        gaps_due = since_us is not None and (exact or self._flush or now_us - since_us >= GAPS_EVERY_US)
        uptime_due = now_us - self._last_commit_us >= UPTIME_EVERY_US
        backfill = self.backfill
        if not (going or gaps_due or backfill.has_news or self._marks.due or uptime_due or exact):
            return None
        gaps = self._ranges.peek(self._run) if gaps_due else []
        for held in going:
            self._explained(*key_of(held.record))
        for gap in gaps:
            for seq in range(gap.first, gap.last + 1):
                self._marks.explained(gap.stream, seq)
        return replace(
            backfill.news(),
            entries=[held.entry(now_us) for held in going],
            gaps=gaps,
            marks=self._marks.watermarks(exact=exact),
        )

    def _end_previous_runs(self, now_us: int) -> None:
        """Once per start: what earlier runs reserved and did not explain is entered as interrupted."""
        if self._previous_ended:
            return
        old = [mark for mark in self._store.runs() if mark.run != self._run]
        if old:
            self._store.commit(Changes(gaps=interrupted(old), ended_runs={mark.run for mark in old}), now_us)
        self._previous_ended = True

    def _drop_excess(self, now_us: int) -> None:
        """What memory cannot hold while the store fails is lost, and said so."""
        for held in self._held.pop_excess(self._max_memory_records):
            self._lost += 1
            run, stream, seq = key_of(held.record)
            if run == self._run:
                self.gap(stream=stream, seq=seq, reason=GapReason.EVICTED, detail="memory", now_us=now_us)

    def _sync(self, now_us: int) -> None:
        if self._unsynced_us is None or now_us - self._unsynced_us < SYNC_WITHIN_US:
            return
        try:
            self._store.sync()
        except Retryable as error:
            self._health.last_error = str(error)
            self._unsynced_us = now_us
        else:
            self._unsynced_us = None

    def _due_us(self, now_us: int, send_us: int | None) -> int:
        due = [now_us + IDLE_US, send_us, self._pools.due_us(carried=self.backfill.carries)]
        if self._ranges.since_us is not None:
            due.append(self._ranges.since_us + GAPS_EVERY_US)
        if self._unsynced_us is not None:
            due.append(self._unsynced_us + SYNC_WITHIN_US)
        if self._health.fails:
            due.append(self._health.retry_us)
        elif len(self._held) > 0 or self.backfill.unreadable or self._marks.due:
            due.append(now_us)
        else:
            due.append(self.payloads.due_us)
        return max(min(t for t in due if t is not None), now_us)
