"""Payloads that agents bring on the bulk lane: offered, taken in pieces, acknowledged once they are durably kept.

    Have ─→ settled? ─ yes → Ack      chunks ─→ part file ─→ hash ─→ PayloadWriter (file and row) ─→ Ack
                     └ no → Need (from where the part ends)

Nothing is kept here of a connection but its newest offer: where an upload stands, its part file says. Everything that an
agent claims is judged before a byte of it is taken, and refused in words if it can never be taken.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from cloud.agents.session import WorkerSession
from cloud.limits import LARGEST_SEQ, ServiceLimits
from cloud.store.payloads.part_folder import PartFolder
from cloud.store.payloads.ref import PayloadRef
from cloud.store.payloads.store import Payload, Payloads
from cloud.store.payloads.writer import Arrival, PayloadWriter
from pipelines.frame import FrameId
from protos.wire.bulk import Ack, BulkBatch, Chunk, Have, HavePayload, Need, Refusal, Want
from protos.wire.session import RejectReason

log = logging.getLogger(__name__)

MOST_OFFERS = 64


@dataclass(slots=True)
class UploadCounts:
    """Payloads, since the start: `arrived` whole and kept, `settled` without a byte of theirs, `damaged` whole and not
    what their hash says, `refused` for ever; `received_bytes` in chunks."""

    arrived: int = 0
    settled: int = 0
    damaged: int = 0
    refused: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Uploader:
    """Whom to tell that a payload is kept, and which part it came from."""

    session: WorkerSession
    sha256: str


@dataclass(slots=True)
class _Offer:
    """What a connection offered last; `open`: indexes that are wanted and not whole yet."""

    have: int
    payloads: Sequence[HavePayload]
    open: set[int] = field(default_factory=set)


class Uploads:
    """`have` and `chunks` are called by one thread, `acknowledge` by the payload writer's. Raise Retryable when disk or
    store refuse for now: nothing is said then, and the agent offers again."""

    def __init__(
        self,
        *,
        payloads: Payloads,
        writer: PayloadWriter,
        parts: PartFolder,
        limits: ServiceLimits,
        codecs: Collection[str],
    ) -> None:
        self._payloads = payloads
        self._writer = writer
        self._parts = parts
        self._limits = limits
        self._codecs = codecs
        self._offers: WeakKeyDictionary[WorkerSession, _Offer] = WeakKeyDictionary()
        self.counts = UploadCounts()

    @property
    def payload_bytes(self) -> int:
        """The largest payload that is taken."""
        return min(self._limits.decompressed_bytes, self._payloads.max_bytes)

    def have(self, session: WorkerSession, have: Have) -> None:
        """Answer an offer."""
        if len(have.payloads) > MOST_OFFERS:
            text = f"{len(have.payloads)} payloads offered at once; {MOST_OFFERS} are the most"
            session.error(RejectReason.NOT_ALLOWED, text)
            return
        refusals = [
            Refusal(index=index, text=text)
            for index, offered in enumerate(have.payloads)
            if (text := self._fault(offered))
        ]
        self.counts.refused += len(refusals)
        refused = {refusal.index for refusal in refusals}
        sound = [index for index in range(len(have.payloads)) if index not in refused]
        left = self._payloads.settle([_offer_of(have.payloads[index]) for index in sound])
        wanted = [sound[place] for place in left]
        settled = [have.payloads[index].id for index in sound if index not in set(wanted)]
        self.counts.settled += len(settled)
        offer = self._offers[session] = _Offer(have.have, have.payloads)
        if settled:
            session.send(Ack(payloads=tuple(settled)))
        wants: list[Want] = []
        for index in wanted:
            offered = have.payloads[index]
            length = self._parts.length(session.agent, offered.sha256.hex())
            if length < offered.size_bytes:
                offer.open.add(index)
                wants.append(Want(index=index, offset_bytes=length))
            elif not self._finish(session, offered):
                offer.open.add(index)
                wants.append(Want(index=index, offset_bytes=0))
        session.send(Need(have=have.have, wants=tuple(wants), refusals=tuple(refusals)))

    def chunks(self, session: WorkerSession, batch: BulkBatch) -> None:
        """Take the pieces of a batch. Those of an offer that is no longer the newest are passed over."""
        for chunk in batch.chunks:
            offer = self._offers.get(session)
            if offer is None or chunk.have != offer.have or chunk.index not in offer.open:
                continue
            self._take(session, offer, chunk)

    def acknowledge(self, arrivals: Sequence[Arrival]) -> None:
        """These are durably kept: their parts are not needed any more, and their agents hear of it."""
        kept: dict[WorkerSession, list[FrameId]] = {}
        for arrival in arrivals:
            assert isinstance(arrival.to, _Uploader)  # noqa: S101 - this object submitted it
            kept.setdefault(arrival.to.session, []).append(arrival.payload.id)
            self._parts.drop(arrival.payload.id.agent, arrival.to.sha256)
        self.counts.arrived += len(arrivals)
        for session, ids in kept.items():
            session.send(Ack(payloads=tuple(ids)))

    def _take(self, session: WorkerSession, offer: _Offer, chunk: Chunk) -> None:
        offered = offer.payloads[chunk.index]
        sha256 = offered.sha256.hex()
        self.counts.received_bytes += len(chunk.data)
        length = self._parts.write(
            session.agent,
            sha256,
            chunk.data,
            offset_bytes=chunk.offset_bytes,
            size_bytes=offered.size_bytes,
        )
        if length == offered.size_bytes:
            offer.open.discard(chunk.index)
            if self._finish(session, offered):
                return
            offer.open.add(chunk.index)
            length = 0
        elif length >= chunk.offset_bytes:
            return
        # A piece before this one is missing, or the whole was not what it said.
        want = Want(index=chunk.index, offset_bytes=length)
        session.send(Need(have=offer.have, wants=(want,)))

    def _finish(self, session: WorkerSession, offered: HavePayload) -> bool:
        """Hand a whole part on to be kept; False if it is not what it said and has to come again. One the writer has no
        room for stays as it is, and is handed on when it is offered again."""
        sha256 = offered.sha256.hex()
        data = self._parts.whole(session.agent, sha256)
        if data is None:
            self.counts.damaged += 1
            log.warning("a payload of %s came damaged and has to come again", offered.id)
            return False
        payload = Payload(
            id=offered.id,
            encoding=offered.encoding,
            data=data,
            source_size=offered.source_size,
            priority=offered.priority,
            hard=offered.hard,
        )
        self._writer.submit(payload, _Uploader(session, sha256))
        return True

    def _fault(self, offered: HavePayload) -> str:
        """Why this payload can never be taken; empty if it can."""
        encoding, limits = offered.encoding, self._limits
        if not 1 <= offered.id.seq <= LARGEST_SEQ:
            return f"{offered.id.seq} is no sequence number"
        if len(offered.sha256) != 32:
            return f"a content hash has 32 bytes, not {len(offered.sha256)}"
        if encoding.codec not in self._codecs:
            return f"codec {encoding.codec!r} is not one of {', '.join(sorted(self._codecs))}"
        if not 1 <= offered.size_bytes <= self.payload_bytes:
            return f"{offered.size_bytes} bytes; this worker takes 1 to {self.payload_bytes}"
        if encoding.body_bytes != offered.size_bytes:
            return f"{offered.size_bytes} bytes are offered, and its encoding says {encoding.body_bytes}"
        if encoding.width_px * encoding.height_px > limits.pixels:
            return f"{encoding.width_px}x{encoding.height_px} px exceed this worker's {limits.pixels} pixels"
        if not 1 <= encoding.decoded_bytes <= limits.decompressed_bytes:
            return (
                f"{encoding.decoded_bytes} decoded bytes; this worker takes 1 to {limits.decompressed_bytes}"
            )
        return ""


def _offer_of(offered: HavePayload) -> tuple[FrameId, PayloadRef]:
    ref = PayloadRef(sha256=offered.sha256.hex(), encoding=offered.encoding, source_size=offered.source_size)
    return offered.id, ref


def refuse_without_a_store(session: WorkerSession) -> None:
    """For a worker whose file keeps no payloads."""
    session.error(
        RejectReason.NOT_ALLOWED,
        "this worker keeps no payloads: give it store.payloads, or leave payload out of the agent's uplink.rules",
    )
