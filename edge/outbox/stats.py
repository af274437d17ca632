"""The outbox in numbers, as the agent's summary, its metrics and its exit need them."""

from dataclasses import dataclass, field
from typing import Any

from edge.outbox.bounds import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxStats:
    """As of the last turn. `committed = acked + pending + Σ evicted + set_aside` over the life of the store.

    `writes` is False from a write that failed until one succeeds. `uncommitted` records wait in memory because the
    store fails for now, `lost` did not fit there and `sent_uncommitted` reached the cloud from there. `*_pending`
    wait in memory; gaps, also in the store. `flash_gb_per_day` is what the outbox writes to the disk, over its whole
    life. `commit_p99_us`: from a record's arrival to its commit, over the last 500. `payloads_waiting`: those in the
    store that the worker that is connected would take; `payloads_lost`: neither disk nor memory took them.
    `batches_refused`: batches and offers the worker had no room for; they go again. `batches_unread`: batches a worker could
    not read; `refused`: of the records set aside those that are kept, since it was the worker that could not read them.
    `unread_words`: why nothing goes up, when the present worker can read nothing at all.
    """

    committed: int = 0
    acked: int = 0
    pending: int = 0
    evicted: dict[str, int] = field(default_factory=dict)
    set_aside: int = 0
    set_aside_files: int = 0
    refused: int = 0
    uncommitted: int = 0
    lost: int = 0
    sent_uncommitted: int = 0
    far_pending: int = 0
    outcomes_pending: int = 0
    gaps_pending: int = 0
    batches_sent: int = 0
    batches_refused: int = 0
    batches_unread: int = 0
    unread_words: str = ""
    bytes: int = 0
    bytes_sent: int = 0
    flash_bytes_written: int = 0
    flash_gb_per_day: float = 0.0
    commit_p99_us: int = 0
    last_error: str = ""
    writes: bool = True
    payloads_committed: int = 0
    payloads_acked: int = 0
    payloads_pending: int = 0
    payloads_uncommitted: int = 0
    payloads_waiting: int = 0
    payloads_evicted: dict[str, int] = field(default_factory=dict)
    payloads_refused: int = 0
    payloads_set_aside: int = 0
    payloads_lost: int = 0
    payload_bytes: int = 0

    @classmethod
    def of(cls, ledger: Ledger, *, ranges: int, **more: Any) -> "OutboxStats":
        """The store's numbers, `ranges` of gaps in memory, and whatever else is known."""
        return cls(
            committed=ledger.committed,
            acked=ledger.acked,
            pending=ledger.pending,
            evicted=ledger.evicted,
            set_aside=ledger.set_aside,
            set_aside_files=ledger.set_aside_files,
            refused=ledger.refused,
            gaps_pending=ledger.gaps + ranges,
            bytes=ledger.bytes,
            flash_bytes_written=ledger.flash_bytes_written,
            payloads_committed=ledger.payloads_committed,
            payloads_acked=ledger.payloads_acked,
            payloads_pending=ledger.payloads_pending,
            payloads_evicted=ledger.payloads_evicted,
            payloads_refused=ledger.payloads_refused,
            payloads_set_aside=ledger.payloads_set_aside,
            payload_bytes=ledger.payload_bytes,
            flash_gb_per_day=round(ledger.flash_gb_per_day, 4),
            **more,
        )

    @property
    def empty(self) -> bool:
        """Nothing is left that the cloud must learn, or would take."""
        waiting = (
            self.pending + self.uncommitted + self.far_pending + self.outcomes_pending + self.gaps_pending
        )
        return waiting + self.payloads_uncommitted + self.payloads_waiting == 0

    @property
    def balance(self) -> int:
        """0 when the law holds."""
        return self.committed - self.acked - self.pending - sum(self.evicted.values()) - self.set_aside

    @property
    def payload_balance(self) -> int:
        """0 when the law of the payloads holds."""
        gone = self.payloads_acked + sum(self.payloads_evicted.values()) + self.payloads_refused
        return self.payloads_committed - gone - self.payloads_set_aside - self.payloads_pending
