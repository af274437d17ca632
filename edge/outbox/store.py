"""What an outbox store is, and the values that cross its door.

Everything that changes goes through `commit`: one transaction, all or nothing, the ledger written with it.
Nothing is removed by reading; a row leaves when its number is acknowledged, when it is evicted (counted, and
explained by a gap) or when a damaged file is set aside (counted). A second record of one identity replaces the
first under a new number, so acknowledging what was sent never removes what came after. Time is an argument
(`now_us`, monotonic); ages are accumulated uptime, so no wall clock can make a record old.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from edge.outbox.bounds import RECORD_BYTES, Ledger
from edge.outbox.changes import PRIORITY_NUMBERS, Changes, Entry, Key, Watermark
from edge.outbox.payload import Payloads
from pipelines.result import Gap

__all__ = [
    "PRIORITY_NUMBERS",
    "Changes",
    "Entry",
    "Key",
    "OutboxStore",
    "Stored",
    "StoredGap",
    "Watermark",
    "within",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A record that is kept. `born_us` is the store's uptime at its capture (negative: before the first start)."""

    number: int
    key: Key
    priority: int
    born_us: int
    data: bytes

    @property
    def bytes(self) -> int:
        return len(self.data) + RECORD_BYTES


@dataclass(frozen=True, slots=True)
class StoredGap:
    number: int
    gap: Gap


class OutboxStore(Payloads, Protocol):
    """Used by one thread. Every method but `close` may raise Retryable: the disk is full, read-only or away;
    nothing was changed and the same call may succeed later. Damage is never raised: it is set aside."""

    def open(self, now_us: int) -> None:
        """Open or make the store; ConfigError for one that a newer version wrote."""
        ...

    def commit(self, changes: Changes, now_us: int) -> None:
        """Make `changes` and evict what exceeds the bounds; survives kill −9 once it has returned."""
        ...

    def peek(self, *, limit: int, max_bytes: int, exclude: Collection[int] = ()) -> Sequence[Stored]:
        """The records that should go next: highest priority, then oldest; at least one if there is any."""
        ...

    def find(self, key: Key) -> Stored | None: ...

    def gaps(self, *, limit: int, exclude: Collection[int] = ()) -> Sequence[StoredGap]:
        """Gaps by number."""
        ...

    def runs(self) -> Sequence[Watermark]: ...

    def uptime_us(self, now_us: int) -> int: ...

    def ledger(self) -> Ledger:
        """As of the last commit; does no I/O."""
        ...

    def sync(self) -> None:
        """Make what was committed survive a power cut."""
        ...

    def tidy(self) -> None:
        """Give space back that commits left free, and whatever else may take as long as the disk likes: to be called
        when nobody waits for a commit. Never raises."""
        ...

    def close(self, now_us: int) -> None:
        """Keep the uptime and let go of the file. Never raises."""
        ...


def within(ordered: Sequence[Stored], *, limit: int, max_bytes: int) -> list[Stored]:
    """The first of `ordered` that fit; at least one, so that a large record is not stuck for ever."""
    chosen: list[Stored] = []
    total = 0
    for stored in ordered[:limit]:
        total += stored.bytes
        if chosen and total > max_bytes:
            break
        chosen.append(stored)
    return chosen
