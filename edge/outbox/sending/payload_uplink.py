"""Payloads on their way to the cloud: what is offered, what of it is wanted, and how far each has gone.

One offer at a time, in the order the store gives; of it one payload after the other, in pieces, PIECES_IN_FLIGHT at
most on their way. What the worker has already is acknowledged without a piece. After a lost connection or a silence
everything is offered anew, and the worker says from where each goes on. Nothing here touches the network or knows a
clock.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable

from edge.outbox.payload import Key, Payloads, StoredPayload
from edge.outbox.sending.payload_offer import PayloadOffer, shown_to_cloud
from pipelines.errors import Retryable
from pipelines.frame import FrameId
from protos.wire.bulk import BulkBatch, Chunk, Have, Need
from protos.wire.session import Error

log = logging.getLogger(__name__)

OFFERED_AT_MOST = 64  # a worker answers no more at once
PIECES_IN_FLIGHT = 12
PIECE_OVERHEAD_BYTES = 64
OFFER_BYTES = 192  # of each payload in a Have
WITHIN_US = 2_000_000
WITHIN_AT_MOST_US = 60_000_000
DAMAGED_AT_MOST = 3
REMEMBERED = 4 * OFFERED_AT_MOST
_READ_BYTES = 1 << 16

Message = Have | BulkBatch


class PayloadUplink:
    """Owned by the writer's thread. `acknowledged`, `refused` and `unreadable` are numbers for the next commit."""

    def __init__(self, store: Payloads, *, agent: str) -> None:
        self._store = store
        self._agent = agent
        self._payload_bytes = 0
        self._haves = 0
        self._offer: PayloadOffer | None = None
        self._numbers: OrderedDict[Key, int] = OrderedDict()
        self._pieces: set[int] = set()  # batches that are not acknowledged
        self._heard_us = 0  # when something last came or went for the present offer
        self._within_us = WITHIN_US
        self._not_before_us = 0
        self._hopeless: set[int] = set()  # until the next connection
        self._said: set[str] = set()
        self.acknowledged: set[int] = set()
        self.refused: set[int] = set()
        self.unreadable: set[int] = set()

    @property
    def taken(self) -> bool:
        """Whether the present worker keeps payloads."""
        return self._payload_bytes > 0

    def committed(self) -> None:
        """What is in the three sets is out of the store."""
        self.acknowledged.clear()
        self.refused.clear()
        self.unreadable.clear()

    @property
    def gone(self) -> set[int]:
        """Numbers that are still in the store and must not be offered again."""
        return self.acknowledged | self.refused | self.unreadable | self._hopeless

    # -- what is heard ----------------------------------------------------------------------------------------

    def reachable(self, payload_bytes: int, now_us: int) -> None:
        """A connection came (with what its worker takes, 0 = no payloads) or went: whatever was on its way may be
        lost."""
        self._payload_bytes = payload_bytes
        self._hopeless.clear()
        self._not_before_us = now_us
        self._forget_offer()

    def acked(self, ids: Iterable[FrameId], now_us: int) -> None:
        """The cloud keeps these, durably."""
        for identity in ids:
            number = self._numbers.get((identity.run, identity.stream, identity.seq))
            if number is None:
                continue  # from long ago: it is offered again, and acknowledged again
            self.acknowledged.add(number)
            self._heard(now_us)
            if self._offer is not None:
                self._offer.settle(number)

    def acked_batch(self, batch: int, now_us: int) -> None:
        """A piece is written down, if it was one."""
        if batch in self._pieces:
            self._pieces.discard(batch)
            self._heard(now_us)

    @property
    def pieces_out(self) -> int:
        """Pieces on their way."""
        return len(self._pieces)

    def turned_away(self, error: Error, now_us: int) -> None:
        """The worker had no room for an offer or a piece: it is asked anew where to go on."""
        if error.batch:
            self.dropped(error.batch, now_us)
        elif self._offer is not None and error.have == self._offer.have:
            self._forget_offer()
            self._not_before_us = now_us

    def dropped(self, batch: int, now_us: int) -> None:
        """The link could not hand a piece to the network: the worker is asked where to go on."""
        if batch in self._pieces:
            self._forget_offer()
            self._not_before_us = now_us

    def needed(self, need: Need, now_us: int) -> None:
        """The answer to an offer, or a piece that has to come again."""
        offer = self._offer
        if offer is None or need.have != offer.have:
            return
        self._heard(now_us)
        for refusal in need.refusals:
            if refusal.index < len(offer.payloads):
                offer.done.add(refusal.index)
                self.refused.add(offer.payloads[refusal.index].number)
                self._say(f"the worker will never take a payload: {refusal.text}")
        for want in need.wants:
            if want.index >= len(offer.payloads) or want.index in offer.done:
                continue
            if want.offset_bytes == 0 and want.index in offer.begun and offer.gone_whole(want.index):
                self._damaged(offer, want.index)
            if want.index not in offer.done:
                offer.at[want.index] = min(want.offset_bytes, offer.payloads[want.index].size_bytes)
        offer.answered = True

    # -- what goes --------------------------------------------------------------------------------------------

    def overdue(self, now_us: int) -> bool:
        """Give up waiting for what does not come, and ask again, more patiently; whether the connection may be to
        blame: an offer or a piece was not answered. A payload that is whole may be kept late by a slow disk."""
        due_us = self.overdue_us()
        if due_us is None or now_us < due_us:
            return False
        silent = bool(self._pieces) or (self._offer is not None and not self._offer.answered)
        self._forget_offer()
        self._not_before_us = now_us
        self._within_us = min(2 * self._within_us, WITHIN_AT_MOST_US)
        return silent

    def due_us(self) -> int | None:
        """When `overdue` or `next` will have something to do if nothing is heard."""
        if not self.taken:
            return None
        return self.overdue_us() if self._offer is not None else self._not_before_us

    def overdue_us(self) -> int | None:
        """When `overdue` gives up, while something is out: an offer without an answer, pieces without an ack, wholes
        without one."""
        offer = self._offer
        if offer is None:
            return None
        waits = not offer.answered or bool(self._pieces) or not offer.sendable()
        return self._heard_us + self._within_us if waits else None

    def next(
        self, *, allowance_bytes: int, message_bytes: int, number: Callable[[], int], now_us: int
    ) -> Message | None:
        """What may go now: an offer, or a piece of at most `allowance_bytes` and `message_bytes`; None if nothing may.
        `number` gives a number to a batch. May raise Retryable when the store cannot be read."""
        if not self.taken:
            return None
        if self._offer is not None and self._offer.finished:
            self._offer = None
        if self._offer is None:
            return self._new_offer(allowance_bytes, now_us)
        if not self._offer.answered or len(self._pieces) >= PIECES_IN_FLIGHT:
            return None
        size_bytes = max(1, min(allowance_bytes, message_bytes) - PIECE_OVERHEAD_BYTES)
        return self._piece(self._offer, size_bytes, number)

    def sent(self, message: Message, now_us: int) -> int:
        """The link took it; the bytes it has on the wire, about."""
        self._heard_us = now_us
        if isinstance(message, Have):
            return OFFER_BYTES * len(message.payloads)
        (chunk,) = message.chunks
        self._pieces.add(message.batch)
        if self._offer is not None and self._offer.have == chunk.have:
            self._offer.begun.add(chunk.index)
            self._offer.at[chunk.index] = chunk.offset_bytes + len(chunk.data)
        return len(chunk.data) + PIECE_OVERHEAD_BYTES

    def not_sent(self, message: Message, now_us: int) -> None:
        """The link did not take it."""
        if isinstance(message, Have):
            self._forget_offer()
            self._not_before_us = now_us

    def waiting(self, pending: int) -> int:
        """Of `pending` payloads in the store, those the present worker would take."""
        return max(0, pending - len(self.gone)) if self.taken else 0

    # -- inside -----------------------------------------------------------------------------------------------

    def _heard(self, now_us: int) -> None:
        self._heard_us = now_us
        self._within_us = WITHIN_US

    def _forget_offer(self) -> None:
        self._offer = None
        self._pieces.clear()

    def _new_offer(self, allowance_bytes: int, now_us: int) -> Have | None:
        if now_us < self._not_before_us:
            return None
        limit = min(OFFERED_AT_MOST, max(1, allowance_bytes // OFFER_BYTES))
        offered: list[StoredPayload] = []
        for payload in self._store.payloads(limit=limit, exclude=self.gone):
            if payload.size_bytes > self._payload_bytes:
                self.refused.add(payload.number)
                self._say(
                    f"a payload of {payload.size_bytes} bytes is given up: the worker takes {self._payload_bytes}"
                )
            else:
                offered.append(payload)
        if not offered:
            self._not_before_us = now_us + WITHIN_US
            return None
        self._haves += 1
        self._offer = PayloadOffer(self._haves, offered)
        for payload in offered:
            self._numbers[payload.shown.key] = payload.number
        while len(self._numbers) > REMEMBERED:
            self._numbers.popitem(last=False)
        return Have(payloads=tuple(shown_to_cloud(self._agent, p) for p in offered), have=self._haves)

    def _piece(self, offer: PayloadOffer, size_bytes: int, number: Callable[[], int]) -> BulkBatch | None:
        for index in offer.sendable():
            payload = offer.payloads[index]
            if index not in offer.begun and self._something_matters_more(payload, offer):
                if not self._pieces:
                    self._forget_offer()
                return None
            at = offer.at[index]
            data = self._store.read_payload(payload.number, offset_bytes=at, size_bytes=size_bytes)
            if not data:  # evicted meanwhile
                offer.done.add(index)
                continue
            chunk = Chunk(index=index, offset_bytes=at, data=data, have=offer.have)
            return BulkBatch(batch=number(), chunks=(chunk,))
        return None

    def _something_matters_more(self, payload: StoredPayload, offer: PayloadOffer) -> bool:
        offered = {p.number for p in offer.payloads}
        first = next(iter(self._store.payloads(limit=1, exclude=self.gone | offered)), None)
        return first is not None and first.shown.priority > payload.shown.priority

    def _damaged(self, offer: PayloadOffer, index: int) -> None:
        """It arrived whole and was not what its hash says: if it is not here either, it is set aside."""
        payload = offer.payloads[index]
        offer.damaged[index] = offer.damaged.get(index, 0) + 1
        try:
            content = self._content(payload)
        except Retryable:  # it is not known whose fault it is
            content = payload.shown.sha256
        if content != payload.shown.sha256:
            self.unreadable.add(payload.number)
            offer.done.add(index)
            self._say("a payload in the outbox is damaged, and is set aside")
        elif offer.damaged[index] >= DAMAGED_AT_MOST:
            self._hopeless.add(payload.number)
            offer.done.add(index)
            self._say("a payload arrives damaged again and again; it waits for the next connection")

    def _content(self, payload: StoredPayload) -> bytes:
        digest, at = hashlib.sha256(), 0
        while data := self._store.read_payload(payload.number, offset_bytes=at, size_bytes=_READ_BYTES):
            digest.update(data)
            at += len(data)
        return digest.digest()

    def _say(self, words: str) -> None:
        if words not in self._said and len(self._said) < REMEMBERED:
            self._said.add(words)
            log.warning("%s", words)
