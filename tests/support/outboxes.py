"""Outbox stores, records and a scripted cloud for tests; time is a number they move themselves."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from edge.links.base import Sent
from edge.outbox.keeper import Keeper
from edge.outbox.memory_outbox import MemoryOutbox
from edge.outbox.payload import PayloadEntry, payload_entry
from edge.outbox.sending.payload_uplink import Message
from edge.outbox.store import Entry, OutboxStore
from pipelines.frame import Encoding, FrameId
from pipelines.result import AnsweredBy, Detections, Priority, Record, Status
from protos.wire import records as wire_records
from protos.wire.bulk import Ack, BulkBatch, Have, RecordRange
from protos.wire.session import Limits

AGENT = "gw-1"
RUN = b"r" * 16
OLD_RUN = b"o" * 16
SECOND = 1_000_000
LIMITS = Limits(message_bytes=8 << 20, picture_px=12_000_000, decompressed_bytes=64 << 20, batch_records=4096)


def record(
    seq: int,
    *,
    stream: str = "door",
    by: AnsweredBy = AnsweredBy.NEAR,
    priority: Priority = Priority.NORMAL,
    boxes: int = 1,
    run: bytes = RUN,
    captured_unix_us: int = 0,
) -> Record:
    found = Detections(
        np.full((boxes, 4), float(seq), np.float32),
        np.full(boxes, 0.5, np.float32),
        np.zeros(boxes, np.uint16),
        ("thing",),
    )
    return Record(
        id=FrameId(AGENT, run, stream, seq),
        answered_by=by,
        status=Status.OK,
        captured_unix_us=captured_unix_us,
        latency_us=40_000,
        on_time=True,
        priority=priority,
        detections=found,
        model="m",
    )


def entry(seq: int, *, priority: int = 1, size: int = 100, age_us: int = 0, stream: str = "door") -> Entry:
    return Entry(key=(RUN, stream, seq), priority=priority, age_us=age_us, data=bytes([seq % 256]) * size)


def payload(
    seq: int, *, priority: int = 1, size: int = 1000, age_us: int = 0, stream: str = "door", run: bytes = RUN
) -> PayloadEntry:
    """A payload whose bytes say where they stand."""
    data = (b"%08d" % seq + bytes(range(256)) * (size // 256 + 1))[:size]
    encoding = Encoding(codec="jpeg", quality=90, width_px=64, height_px=48, body_bytes=size)
    return payload_entry(
        (run, stream, seq),
        data,
        encoding,
        priority=priority,
        age_us=age_us,
        source_size=(640, 480),
        hard=priority == 2,
    )


@dataclass
class Cloud:
    """A bulk lane that takes batches and commits when told."""

    batches: list[BulkBatch] = field(default_factory=list)
    haves: list[Have] = field(default_factory=list)
    sent: Sent = Sent.ACCEPTED

    def send(self, message: Message) -> Sent:
        if self.sent is Sent.ACCEPTED:
            if isinstance(message, Have):
                self.haves.append(message)
            else:
                self.batches.append(message)
        return self.sent

    def take(self) -> tuple[list[Record], Ack]:
        """The records of every batch so far, and the Ack that says they are committed."""
        batches, self.batches = self.batches, []
        return [r for b in batches for r in opened(b)], Ack(batches=tuple(b.batch for b in batches))


def opened(batch: BulkBatch) -> list[Record]:
    return list(wire_records.unpack(batch, agent=AGENT, decompressed_bytes=64 << 20, batch_records=4096))


def live_ack(first: int, last: int, *, stream: str = "door") -> Ack:
    return Ack(records=(RecordRange(run=RUN, stream=stream, first=first, last=last),))


class Desk:
    """A Keeper in virtual time: `go` lets time pass and takes turns when they are due."""

    def __init__(
        self, store: OutboxStore | None = None, *, max_memory_records: int = 4096, run: bytes = RUN
    ) -> None:
        self.store = store or MemoryOutbox()
        self.cloud = Cloud()
        self.committed: list[int] = []
        self.now_us = 10 * SECOND
        self.keeper = Keeper(
            store=self.store,
            agent=AGENT,
            run=run,
            clock_us=lambda: self.now_us,
            on_committed=lambda frame_id: self.committed.append(frame_id.seq),
            send=self.cloud.send,
            grace_us=SECOND,
            max_memory_records=max_memory_records,
            overdue=self._overdue,
        )
        self.overdue: Callable[[], object] = int  # what is done when a batch is overdue
        self.keeper.open(self.now_us)
        self.turns = 0

    def _overdue(self) -> None:
        self.overdue()

    def turn(self) -> int:
        self.turns += 1
        return self.keeper.turn(self.now_us)

    def go(self, span_us: int) -> None:
        """Turns at their own times until `span_us` has passed, and one at the end."""
        end_us = self.now_us + span_us
        while (due_us := self.turn()) < end_us:
            self.now_us = max(due_us, self.now_us + 1)
        self.now_us = end_us
        self.turn()

    def connect(self) -> None:
        self.keeper.backfill.reachable(connected=True, limits=LIMITS, now_us=self.now_us)

    def disconnect(self) -> None:
        self.keeper.backfill.reachable(connected=False, limits=None, now_us=self.now_us)

    def deliver(self) -> list[Record]:
        """The cloud commits what it got and says so."""
        records, ack = self.cloud.take()
        self.keeper.acked_bulk(ack, self.now_us)
        self.turn()
        return records
