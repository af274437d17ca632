"""Batches on their way to the cloud: what each carries, until the worker says that it is committed.

How many are in flight at once is for `intake_window` and the pacing to say. One that is not acknowledged in time, or whose
connection is gone, is dissolved: its records may be sent again under a new number. An acknowledgement of a dissolved
batch that comes late still counts, for it names exactly the rows that the batch carried.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from edge.outbox.store import Key, StoredGap
from pipelines.result import Record
from protos.wire import records as wire_records
from protos.wire.bulk import BulkBatch
from protos.wire.session import Limits

BATCH_RECORDS = 256
MESSAGE_SLACK_BYTES = 1024
ACK_WITHIN_US = 2_000_000
ACK_WITHIN_AT_MOST_US = 16_000_000
REMEMBERED = 64
LEAST_PACKED = 0.2
PACKED_WEIGHT = 0.2
GAP_WIRE_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What one batch holds: stored records and gaps by number, and records that are only in memory."""

    batch: int
    stored: Mapping[int, Key] = field(default_factory=dict)
    stored_gaps: tuple[StoredGap, ...] = ()
    memory: Mapping[Key, Record] = field(default_factory=dict)
    sent_us: int = 0
    wire_bytes: int = 0

    @property
    def entries(self) -> AbstractSet[int]:
        return self.stored.keys()

    @property
    def gaps(self) -> frozenset[int]:
        return frozenset(gap.number for gap in self.stored_gaps)


class Uplink:
    """Owned by the writer's thread. Nothing here touches the network. `packed` is what is left of a byte of records
    when they are packed, as it was of late."""

    def __init__(self) -> None:
        self.packed = 1.0
        self._last_batch = 0
        self._in_flight: OrderedDict[int, Carried] = OrderedDict()
        self._dissolved: OrderedDict[int, Carried] = OrderedDict()
        self._ack_within_us = ACK_WITHIN_US

    def __len__(self) -> int:
        return len(self._in_flight)

    @property
    def out(self) -> Collection[int]:
        """Numbers of the batches on their way."""
        return self._in_flight.keys()

    def most(self, wire_bytes: int, limits: Limits | None) -> tuple[int, int]:
        """How many records, and bytes of them before they are packed, a batch of about `wire_bytes` may hold."""
        records, size_bytes = BATCH_RECORDS, int(wire_bytes / self.packed)
        if limits is None:
            return records, size_bytes
        room_bytes = min(limits.decompressed_bytes, limits.message_bytes - MESSAGE_SLACK_BYTES)
        return min(records, limits.batch_records), min(size_bytes, room_bytes)

    def busy_entries(self) -> set[int]:
        return {n for carried in self._in_flight.values() for n in carried.entries}

    def busy_gaps(self) -> set[int]:
        return {n for carried in self._in_flight.values() for n in carried.gaps}

    def carries(self, key: Key) -> bool:
        """Whether a record that is only in memory is in flight."""
        return any(key in carried.memory for carried in self._in_flight.values())

    def build(
        self,
        *,
        stored: Mapping[int, Record],
        memory: Mapping[Key, tuple[Record, int]],
        gaps: Sequence[StoredGap],
        now_us: int,
    ) -> tuple[BulkBatch, Carried]:
        """A batch of records whose `age_us` is as of now. `memory` has the kept record and its age."""
        number = self.number()
        aged = [*stored.values(), *(with_age(record, age_us) for record, age_us in memory.values())]
        packed, size = wire_records.pack(aged) if aged else (b"", 0)
        if size:
            self.packed += PACKED_WEIGHT * (min(1.0, max(LEAST_PACKED, len(packed) / size)) - self.packed)
        batch = BulkBatch(
            batch=number,
            records_zstd=packed,
            records_bytes=size,
            gaps=tuple(g.gap for g in gaps),
        )
        carried = Carried(
            batch=batch.batch,
            stored={number: (r.id.run, r.id.stream, r.id.seq) for number, r in stored.items()},
            stored_gaps=tuple(gaps),
            memory={key: record for key, (record, _) in memory.items()},
            sent_us=now_us,
            wire_bytes=len(packed) + GAP_WIRE_BYTES * (1 + len(gaps)),
        )
        return batch, carried

    def number(self) -> int:
        """For a batch, rising within a run."""
        self._last_batch += 1
        return self._last_batch

    def sent(self, carried: Carried) -> None:
        self._in_flight[carried.batch] = carried

    def acked(self, batch: int) -> Carried | None:
        """What the cloud has now; None for a batch that was acknowledged before or never sent."""
        carried = self._in_flight.pop(batch, None)
        if carried is not None:
            self._ack_within_us = ACK_WITHIN_US
            return carried
        return self._dissolved.pop(batch, None)

    def refused(self, batch: int) -> Carried | None:
        """What a batch held that is not to go again as it was; None for one that is not known."""
        return self._in_flight.pop(batch, None) or self._dissolved.pop(batch, None)

    def dissolve_overdue(self, now_us: int) -> bool:
        """Give up waiting for batches that are overdue, and wait longer for the next ones; whether there were any."""
        overdue = [n for n, c in self._in_flight.items() if now_us >= c.sent_us + self._ack_within_us]
        for number in overdue:
            self.dissolve(number)
        if overdue:
            self._ack_within_us = min(2 * self._ack_within_us, ACK_WITHIN_AT_MOST_US)
        return bool(overdue)

    def dissolve_all(self) -> None:
        """The connection is gone or new. Patience stays as it is: a slow link is as slow on a fresh connection."""
        for number in list(self._in_flight):
            self.dissolve(number)

    def dissolve(self, batch: int) -> None:
        carried = self._in_flight.pop(batch, None)
        if carried is None:
            return
        self._dissolved[batch] = carried
        if len(self._dissolved) > REMEMBERED:
            self._dissolved.popitem(last=False)

    def overdue_us(self) -> int | None:
        """When the oldest batch will be overdue."""
        if not self._in_flight:
            return None
        return next(iter(self._in_flight.values())).sent_us + self._ack_within_us


def with_age(record: Record, age_us: int) -> Record:
    return replace(record, age_us=max(0, age_us))
