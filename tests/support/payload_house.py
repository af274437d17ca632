"""Both ends of the payloads' way in virtual time: a gateway's outbox, a worker's uploads, and a link that may do anything.

Messages lie in queues until the test delivers, drops or repeats them; either end can be killed and started anew over
what it has on disk.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cloud.keeping.uploads import Uploads
from cloud.limits import ServiceLimits
from cloud.store.payloads.folder import PayloadFolder
from cloud.store.payloads.part_folder import PartFolder
from cloud.store.payloads.store import Payload, Payloads
from cloud.store.payloads.writer import Arrival
from cloud.store.records import RecordStore, open_store
from edge.links.base import Sent
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.keeper import Keeper
from edge.outbox.payload import PayloadEntry
from edge.outbox.sending.payload_uplink import Message
from pipelines.frame import FrameId
from protos.wire import multipart
from protos.wire.bulk import Ack, BulkBatch, Have, Need
from protos.wire.messages import ToAgent
from tests.support.outboxes import AGENT, LIMITS, RUN, SECOND

QUOTA_BYTES = 64 << 20


class Session:
    """A connection, as `Uploads` knows it."""

    agent = AGENT

    def __init__(self, deliver: Callable[[ToAgent], None]) -> None:
        self._deliver = deliver
        self.errors: list[str] = []

    def send(self, message: ToAgent) -> bool:
        self._deliver(multipart.unpack_to_agent(multipart.pack_to_agent(message), agent=AGENT))
        return True

    def error(self, _reason: Any, text: str) -> None:
        self.errors.append(text)


class HeldWriter:
    """A payload writer that keeps a payload when it is told to; what it had not kept is lost with its process."""

    def __init__(self, payloads: Payloads, acknowledge: Callable[[list[Arrival]], None]) -> None:
        self._payloads = payloads
        self._acknowledge = acknowledge
        self.waiting: list[Arrival] = []

    def submit(self, payload: Payload, to: object = None) -> bool:
        self.waiting.append(Arrival(payload, to))
        return True

    def work(self) -> None:
        group, self.waiting = self.waiting, []
        if group:
            self._payloads.commit([a.payload for a in group], now_unix_us=1)
            self._acknowledge(group)


class House:
    """`up` and `down` are what is on its way; `kept` is what a payload should be, by seq."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_us = 10 * SECOND
        self.up: list[Message] = []
        self.down: list[ToAgent] = []
        self.connected = False
        self.kept: dict[int, PayloadEntry] = {}
        self.pieces = 0
        self.piece_bytes = 0
        self.store: RecordStore = open_store(f"sqlite:///{root}/records.db")
        (root / "payloads").mkdir()
        self._start_worker()
        self._start_gateway()

    # -- life -------------------------------------------------------------------------------------------------

    def _start_worker(self) -> None:
        folder = PayloadFolder(self.root / "payloads")
        self.payloads = Payloads(self.store, folder, max_bytes=QUOTA_BYTES)
        self.writer = HeldWriter(self.payloads, self._acknowledge)
        self.uploads = Uploads(
            payloads=self.payloads,
            writer=self.writer,  # type: ignore[arg-type]
            parts=PartFolder(folder.root / "parts", max_bytes=QUOTA_BYTES),
            limits=ServiceLimits(),
            codecs=("jpeg",),
        )

    def _acknowledge(self, group: list[Arrival]) -> None:
        self.uploads.acknowledge(group)

    def _start_gateway(self) -> None:
        self.overdue_us: list[int] = []  # when a connection was taken for dead
        self.outbox = SqliteOutbox(self.root / "outbox.db")
        self.keeper = Keeper(
            store=self.outbox,
            agent=AGENT,
            run=RUN,
            clock_us=lambda: self.now_us,
            on_committed=lambda _: None,
            send=self._send,
            grace_us=SECOND,
            max_memory_records=100,
            overdue=lambda: self.overdue_us.append(self.now_us),
        )
        self.keeper.open(self.now_us)

    def kill_worker(self) -> None:
        self.disconnect()
        self._start_worker()

    def kill_gateway(self) -> None:
        self.disconnect()
        self.outbox.let_go()
        self._start_gateway()

    def close(self) -> None:
        self.outbox.let_go()
        self.store.close()

    # -- the link ---------------------------------------------------------------------------------------------

    def connect(self) -> None:
        self.disconnect()
        self.connected = True
        self.session = Session(self.down.append)
        limits = replace(LIMITS, payload_bytes=self.uploads.payload_bytes)
        self.keeper.backfill.reachable(connected=True, limits=limits, now_us=self.now_us)

    def disconnect(self) -> None:
        """What was on its way is lost."""
        self.up.clear()
        self.down.clear()
        if self.connected:
            self.connected = False
            self.keeper.backfill.reachable(connected=False, limits=None, now_us=self.now_us)

    def _send(self, message: Message) -> Sent:
        if not self.connected:
            return Sent.DOWN
        unpacked = multipart.unpack_to_worker(multipart.pack_to_worker(message), agent=AGENT)
        assert isinstance(unpacked, Have | BulkBatch)
        self.up.append(unpacked)
        return Sent.ACCEPTED

    def arrive_up(self, place: int = 0) -> None:
        """The worker hears one message."""
        if place >= len(self.up):
            return
        message = self.up.pop(place)
        if isinstance(message, Have):
            self.uploads.have(self.session, message)  # type: ignore[arg-type]
            return
        self.pieces += len(message.chunks)
        self.piece_bytes += sum(len(chunk.data) for chunk in message.chunks)
        self.uploads.chunks(self.session, message)  # type: ignore[arg-type]
        self.session.send(Ack(batches=(message.batch,)))

    def arrive_down(self, place: int = 0) -> None:
        """The gateway hears one message."""
        if place >= len(self.down):
            return
        match self.down.pop(place):
            case Ack() as ack:
                self.keeper.acked_bulk(ack, self.now_us)
            case Need() as need:
                self.keeper.backfill.payloads.needed(need, self.now_us)

    # -- what happens -----------------------------------------------------------------------------------------

    def keep(self, entry: PayloadEntry) -> None:
        self.keeper.payloads.put(entry, self.now_us)
        self.keeper.turn(self.now_us)
        self.kept[entry.shown.key[2]] = entry

    def turn(self, span_us: int = 0) -> None:
        self.now_us += span_us
        self.keeper.turn(self.now_us)

    def settle(self, rounds: int = 2000) -> None:
        """A link that works, for as long as there is something to do."""
        if not self.connected:
            self.connect()
        for _ in range(rounds):
            self.turn(100_000)
            while self.up or self.down:
                self.arrive_up()
                self.arrive_down()
            self.writer.work()
            if not self.outbox.ledger().payloads_pending and not self.down:
                return
        raise AssertionError(f"{self.outbox.ledger()} is left")

    # -- what is there ----------------------------------------------------------------------------------------

    def in_cloud(self, seq: int) -> bytes | None:
        refs = self.payloads.refs([FrameId(AGENT, RUN, "door", seq)])
        return self.payloads.read(refs[0].sha256) if refs else None

    def parts(self) -> list[str]:
        folder = self.root / "payloads" / "parts"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []
