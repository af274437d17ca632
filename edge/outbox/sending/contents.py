"""What the next batch holds: rows that a worker refused before, by themselves; else stored records by worth, gaps with them,
and what only memory has.

Nothing is removed here, and nothing is given twice while it is on its way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edge.outbox.memory import Held, HeldRecords
from edge.outbox.sending.doubts import Doubt, Doubts
from edge.outbox.sending.uplink import BATCH_RECORDS, Carried, Uplink, with_age
from edge.outbox.store import Key, OutboxStore, StoredGap
from edge.outbox.stored_records import StoredRecords
from pipelines.errors import Retryable
from pipelines.result import Record
from protos.wire.bulk import BulkBatch
from protos.wire.session import Limits

BATCH_GAPS = 256
OUTCOMES_EVERY_US = 1_000_000


@dataclass(slots=True, kw_only=True)
class Contents:
    """`acknowledged` and `acknowledged_gaps`: numbers of rows that the next commit removes. May raise Retryable when the
    store cannot be read."""

    store: OutboxStore
    stored: StoredRecords
    uplink: Uplink
    doubts: Doubts
    held: HeldRecords
    outcomes: HeldRecords
    acknowledged: set[int]
    acknowledged_gaps: set[int]

    def stored_left(self) -> bool:
        """Whether the store has rows that may go with others."""
        ledger = self.store.ledger()
        records = ledger.pending - len(self._busy())
        return records > 0 or ledger.gaps - len(self._busy_gaps()) > 0

    def due_us(self, now_us: int, *, at_once: bool, store_fails: bool) -> int | None:
        """When the next batch goes, if the way is free; None: there is nothing to go."""
        outcomes_us = self._outcomes_due_us(now_us, at_once=at_once)
        if self.stored_left() or (store_fails and self._waiting(self.held)):
            outcomes_us = now_us
        if outcomes_us is not None:
            outcomes_us = max(outcomes_us, self.doubts.others_wait_until_us(now_us))
        return min((t for t in (outcomes_us, self.doubts.due_us()) if t is not None), default=None)

    def build(
        self, *, max_wire_bytes: int, limits: Limits | None, now_us: int, store_fails: bool
    ) -> tuple[BulkBatch, Carried, Doubt | None] | None:
        """None if there is nothing after all."""
        stored, gaps, doubt = self._in_doubt(now_us)
        memory: dict[Key, tuple[Record, int]] = {}
        if doubt is None and self.doubts.others_wait_until_us(now_us) <= now_us:
            most, max_bytes = self.uplink.most(max_wire_bytes, limits)
            try:
                stored = self.stored.peek(most=most, max_bytes=max_bytes, exclude=self._busy())
                gaps = self.store.gaps(limit=min(most, BATCH_GAPS), exclude=self._busy_gaps())
            except Retryable:
                if not store_fails:
                    raise
                stored, gaps = {}, ()  # what memory holds can go without it
            pools = [*self._waiting(self.outcomes), *(self._waiting(self.held) if store_fails else ())]
            for key, held in pools[: most - len(stored)]:
                memory[key] = (held.record, held.age_us(now_us))
        if not (stored or gaps or memory):
            return None
        records = {
            number: with_age(record, self.store.uptime_us(now_us) - born)
            for number, (record, born) in stored.items()
        }
        batch, carried = self.uplink.build(stored=records, memory=memory, gaps=gaps, now_us=now_us)
        return batch, carried, doubt

    def _in_doubt(
        self, now_us: int
    ) -> tuple[dict[int, tuple[Record, int]], Sequence[StoredGap], Doubt | None]:
        """The rows in doubt that are to go now, of those that are still there."""
        while (doubt := self.doubts.next(now_us)) is not None:
            stored = self.stored.those(doubt.records, exclude=self.acknowledged)
            doubt.records = {number: key for number, key in doubt.records.items() if number in stored}
            doubt.gaps = {n: gap for n, gap in doubt.gaps.items() if n not in self.acknowledged_gaps}
            if doubt:
                return stored, [*doubt.gaps.values()], doubt
            self.doubts.forget(doubt)
        return {}, (), None

    def _busy(self) -> set[int]:
        return (
            self.uplink.busy_entries()
            | self.acknowledged
            | self.stored.unreadable
            | self.doubts.busy_records()
        )

    def _busy_gaps(self) -> set[int]:
        return self.uplink.busy_gaps() | self.acknowledged_gaps | self.doubts.busy_gaps()

    def _waiting(self, pool: HeldRecords) -> list[tuple[Key, Held]]:
        return [
            (key, held)
            for key, held in pool.items()
            if not (self.uplink.carries(key) or self.doubts.stays(key))
        ]

    def _outcomes_due_us(self, now_us: int, *, at_once: bool) -> int | None:
        waiting = self._waiting(self.outcomes)
        if not waiting:
            return None
        if at_once or len(waiting) >= BATCH_RECORDS:
            return now_us
        return waiting[0][1].at_us + OUTCOMES_EVERY_US
