"""Sends what the outbox keeps, as the pacing allows, and notes what the cloud has taken.

Stored records go by priority, then age; outcomes of far answers and gaps ride along, or go alone when they have
waited long enough. Payloads go when no record is left to go. Nothing is removed here: numbers that were acknowledged
are handed to the next commit.
"""

import logging
from collections.abc import Callable
from typing import Any

from edge.links.base import Sent
from edge.outbox import full_disk
from edge.outbox.memory import Held, HeldRecords
from edge.outbox.sending.contents import Contents
from edge.outbox.sending.doubts import Doubts
from edge.outbox.sending.intake_window import MOST, IntakeWindow
from edge.outbox.sending.pacing import LARGE_BYTES, Pacing
from edge.outbox.sending.payload_uplink import Message, PayloadUplink
from edge.outbox.sending.uplink import MESSAGE_SLACK_BYTES, Uplink, with_age
from edge.outbox.store import Changes, Key, OutboxStore
from edge.outbox.stored_records import StoredRecords
from protos.wire.bulk import Ack
from protos.wire.session import Error, Limits, RejectReason

log = logging.getLogger(__name__)

SEND_AGAIN_US = 100_000
UNREAD = (RejectReason.BAD_PAYLOAD, RejectReason.TOO_LARGE)


class Backfill:
    """Owned by the writer's thread. `held` and `outcomes` are the keeper's pools of records in memory. `on_overdue` is
    called when a batch was not acknowledged in time: the connection may be dead without a word."""

    def __init__(
        self,
        *,
        store: OutboxStore,
        agent: str,
        send: Callable[[Message], Sent],
        held: HeldRecords,
        outcomes: HeldRecords,
        on_overdue: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._stored = StoredRecords(store, agent=agent)
        self._send = send
        self._held = held
        self._outcomes = outcomes
        self._uplink = Uplink()
        self.payloads = PayloadUplink(store, agent=agent)
        self._window = IntakeWindow()
        self._limits: Limits | None = None
        self._not_before_us = 0
        self.pacing = Pacing()
        self._on_overdue = on_overdue
        self.acknowledged: set[int] = set()
        self.acknowledged_gaps: set[int] = set()
        self.unreadable = self._stored.unreadable
        self.doubts = Doubts()
        self._contents = Contents(
            store=store,
            stored=self._stored,
            uplink=self._uplink,
            doubts=self.doubts,
            held=held,
            outcomes=outcomes,
            acknowledged=self.acknowledged,
            acknowledged_gaps=self.acknowledged_gaps,
        )
        self.sent_uncommitted = 0
        self.batches_sent = 0
        self.bytes_sent = 0

    def reachable(self, *, connected: bool, limits: Limits | None, now_us: int) -> None:
        """A connection of the bulk lane came or went; what was in flight was on another one."""
        self._uplink.dissolve_all()
        self._window.another()
        self.doubts.another()
        self.pacing.reachable(connected=connected, now_us=now_us)
        self._limits = limits if limits is not None else self._limits
        self._not_before_us = now_us
        self.payloads.reachable(limits.payload_bytes if connected and limits else 0, now_us)

    def dropped(self, batch: int, now_us: int) -> None:
        """The link could not hand an accepted batch to the network."""
        self._uplink.dissolve(batch)
        self.doubts.lost_but(self._uplink.out)
        self.payloads.dropped(batch, now_us)
        self.pacing.lost(batch)
        self._not_before_us = now_us + SEND_AGAIN_US

    def refused(self, error: Error, now_us: int) -> None:
        """The worker had no room for a batch or an offer, which goes again later; or it could not read a batch."""
        if error.batch and error.reason in UNREAD and self._unread(error.batch, error.text, now_us):
            return
        if error.batch:
            self._uplink.dissolve(error.batch)
            self.doubts.lost_but(self._uplink.out)
            self.pacing.lost(error.batch)
        self.payloads.turned_away(error, now_us)
        if self._window.refuse(self._out, now_us):
            log.info("the worker has no room for all of the backfill, it goes on more slowly: %s", error.text)
        self._not_before_us = max(self._not_before_us, self._window.until_us)

    def _unread(self, batch: int, words: str, now_us: int) -> bool:
        """Find out what it is in the batch; False for one that holds no rows."""
        carried = self._uplink.refused(batch)
        if carried is None:
            return False
        self.pacing.lost(batch)
        silent = not self.doubts.words
        for what in self.doubts.refuse(carried, words, now_us):
            log.error("%s, the worker cannot read it: %s", what, words)
        if silent and self.doubts.words:
            log.error(
                "the worker can read nothing of the backfill, which waits: %s; does its version fit?", words
            )
        return True

    @property
    def _out(self) -> int:
        """Batches on their way."""
        return len(self._uplink) + self.payloads.pieces_out

    def acked(self, ack: Ack, now_us: int) -> list[Key]:
        """Note what the cloud has; the records that it took from memory before any store had them."""
        uncommitted: list[Key] = []
        self.payloads.acked(ack.payloads, now_us)
        for batch in ack.batches:
            if self._window.took():
                log.info(
                    "the worker takes all of the backfill again; %d refusals so far", self._window.refused
                )
            self.pacing.acked(batch, now_us)
            self.payloads.acked_batch(batch, now_us)
            carried = self._uplink.acked(batch)
            if carried is None:
                continue
            if self.doubts.took(batch):
                log.warning("the worker can read the backfill again")
            self.acknowledged |= carried.entries
            self.acknowledged_gaps |= carried.gaps
            for key, record in carried.memory.items():
                self._outcomes.drop_if_same(key, record)
                if self._held.drop_if_same(key, record):
                    uncommitted.append(key)
        self.sent_uncommitted += len(uncommitted)
        return uncommitted

    @property
    def has_news(self) -> bool:
        """Whether there is something for the next commit."""
        return bool(self.news())

    def news(self) -> Changes:
        """What leaves the store with the next commit."""
        return Changes(
            acknowledged=frozenset(self.acknowledged),
            unreadable=frozenset(self.unreadable),
            refused=dict(self.doubts.refused),
            acknowledged_gaps=frozenset(self.acknowledged_gaps),
            refused_gaps=frozenset(self.doubts.gaps),
            acknowledged_payloads=frozenset(self.payloads.acknowledged),
            refused_payloads=frozenset(self.payloads.refused),
            unreadable_payloads=frozenset(self.payloads.unreadable),
        )

    def figures(self) -> dict[str, Any]:
        """What was sent and what would go, by the names `OutboxStats` has for it."""
        return {
            "sent_uncommitted": self.sent_uncommitted,
            "batches_sent": self.batches_sent,
            "batches_refused": self._window.refused,
            "batches_unread": self.doubts.batches,
            "unread_words": self.doubts.words,
            "bytes_sent": self.bytes_sent,
            "payloads_waiting": self.payloads_left(),
        }

    def committed(self) -> None:
        """What was acknowledged is out of the store."""
        self.acknowledged.clear()
        self.acknowledged_gaps.clear()
        self.unreadable.clear()
        self.doubts.committed()
        self.payloads.committed()

    def make_room(self, changes: Changes | None, *, most: int, now_us: int) -> None:
        """On a full disk, for `changes` that it had no room for: let go of what the cloud has, then of payloads."""
        full_disk.make_room(
            self._store,
            changes,
            acknowledged=self.acknowledged,
            payloads_acknowledged=self.payloads.acknowledged,
            payloads_refused=self.payloads.refused,
            most=most,
            now_us=now_us,
        )

    def carries(self, key: Key) -> bool:
        return self._uplink.carries(key)

    def reread(self, key: Key, now_us: int) -> Held | None:
        """A stored record that the cloud has not acknowledged, as it would be held. May raise Retryable."""
        found = self._stored.find(key, exclude=self.acknowledged)
        if found is None:
            return None
        record, born_us = found
        return Held(with_age(record, self._store.uptime_us(now_us) - born_us), now_us)

    def turn(self, now_us: int, *, at_once: bool, store_fails: bool) -> int | None:
        """Send what may go; when to ask again, None if only news can change anything.

        `at_once`: outcomes do not wait for company. `store_fails`: held records go up from memory. May raise
        Retryable when the store cannot be read.
        """
        if self._uplink.dissolve_overdue(now_us) | self.payloads.overdue(now_us):
            self.doubts.lost_but(self._uplink.out)
            self.pacing.lost_all()
            self._on_overdue()
        if not self.pacing.connected:
            return None
        due_us = self._turn_records(now_us, at_once=at_once, store_fails=store_fails)
        if store_fails or self._contents.stored_left():
            return due_us
        return min((t for t in (due_us, self._turn_payloads(now_us)) if t is not None), default=None)

    def _turn_payloads(self, now_us: int) -> int | None:
        while now_us >= self._not_before_us:
            if not self.payloads_left():
                return None
            if not self._window.open(self._out):
                return self.payloads.overdue_us()
            allowance_bytes = self.pacing.payload_allowance_bytes(now_us)
            if allowance_bytes == 0:
                return max(self.pacing.payload_due_us(now_us), now_us + 1000)
            message = self.payloads.next(
                allowance_bytes=allowance_bytes,
                message_bytes=self._message_bytes,
                number=self._uplink.number,
                now_us=now_us,
            )
            if message is None:
                return self.payloads.due_us()
            if self._send(message) is not Sent.ACCEPTED:
                self.payloads.not_sent(message, now_us)
                self._not_before_us = now_us + SEND_AGAIN_US
                break
            size_bytes = self.payloads.sent(message, now_us)
            self.pacing.sent(size_bytes, now_us, batch=getattr(message, "batch", None))
            self.pacing.pause.sent(now_us)
            self.bytes_sent += size_bytes
        return self._not_before_us

    def payloads_left(self) -> int:
        """Payloads in the store that the present worker would take."""
        return self.payloads.waiting(self._store.ledger().payloads_pending)

    @property
    def _message_bytes(self) -> int:
        most_bytes = LARGE_BYTES if self._limits is None else self._limits.message_bytes
        return min(LARGE_BYTES, most_bytes - MESSAGE_SLACK_BYTES)

    def _turn_records(self, now_us: int, *, at_once: bool, store_fails: bool) -> int | None:
        while len(self._uplink) < MOST and self._window.open(self._out):
            if now_us < self._not_before_us:
                return self._not_before_us
            due_us = self._contents.due_us(now_us, at_once=at_once, store_fails=store_fails)
            if due_us is None or now_us < due_us:
                return min((t for t in (due_us, self._uplink.overdue_us()) if t is not None), default=None)
            allowance_bytes = self.pacing.allowance_bytes(now_us)
            if allowance_bytes == 0:
                return max(self.pacing.due_us(now_us), now_us + 1000)
            if not self._send_one(allowance_bytes, now_us, store_fails=store_fails):
                self._not_before_us = now_us + SEND_AGAIN_US
        return self._uplink.overdue_us()

    def _send_one(self, allowance_bytes: int, now_us: int, *, store_fails: bool) -> bool:
        """Build a batch and hand it to the link; False if there was none to build or the link did not take it."""
        built = self._contents.build(
            max_wire_bytes=min(allowance_bytes, LARGE_BYTES),
            limits=self._limits,
            now_us=now_us,
            store_fails=store_fails,
        )
        if built is None:
            return False
        batch, carried, doubt = built
        if self._send(batch) is not Sent.ACCEPTED:
            return False
        self._uplink.sent(carried)
        if doubt is not None:
            doubt.out = batch.batch
        self.pacing.sent(carried.wire_bytes, now_us, batch=batch.batch)
        self.batches_sent += 1
        self.bytes_sent += carried.wire_bytes
        return True
