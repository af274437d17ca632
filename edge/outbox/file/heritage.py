"""What an outbox file that was set aside leaves to the new one: its numbers, its gaps, and what is whole of its rows.

At first everything that was pending counts as set aside. Each row that is saved then counts as pending again, so that
the laws hold at every moment, wherever the saving ends: by damage, on a full disk, by a kill.
"""

import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from edge.outbox.bounds import Bounds, Tally
from edge.outbox.file import salvage
from edge.outbox.file.salvage import Remains
from edge.outbox.file.transaction import Transaction
from edge.outbox.store import Changes

log = logging.getLogger(__name__)

_KEPT = ("bytes", "pending", "gaps", "payloads_pending", "payload_bytes", "refused")
"""What a new file begins without."""


def charged(left: Remains, known: Mapping[str, int]) -> Remains:
    """`left` with everything that was pending counted as set aside; `known` numbers, if any, are newer than its own."""
    numbers = dict(known or left.ledger)
    ledger = Tally(numbers | {"pending": 0, "payloads_pending": 0}).ledger()
    left.records, left.payloads = max(0, ledger.balance), max(0, ledger.payload_balance)
    numbers |= dict.fromkeys(_KEPT, 0)
    numbers["set_aside"] = ledger.set_aside + ledger.balance
    numbers["payloads_set_aside"] = ledger.payloads_set_aside + ledger.payload_balance
    numbers["set_aside_files"] = ledger.set_aside_files + 1
    left.ledger = numbers
    return left


@dataclass(slots=True)
class Heir:
    """The new file `db`, empty, whose numbers `tally` becomes. `leave_room` raises OSError when the disk is nearly full."""

    db: sqlite3.Connection
    tally: Tally
    bounds: Bounds
    left: Remains
    leave_room: Callable[[], None]

    def accept(self) -> None:
        """Numbers, marks and gaps, in one transaction; before it nothing of the heritage is there."""
        left = self.left
        self.tally.values = left.ledger | dict.fromkeys(_KEPT, 0)
        self._work.run(Changes(gaps=[*left.gaps, *left.losses()], marks=left.marks))

    def save(self) -> None:
        """Every whole record, then payloads up to a bound; what does not fit on a full disk stays where it lies."""
        records, payloads = self.left.records, self.left.payloads
        with suppress(sqlite3.Error):
            for chunk in salvage.records(self.left.path):
                records = self._work.take_over(chunk, lost=records)
        if records == 0 and all(gap.detail != salvage.LOST for gap in self.left.gaps):
            losses = self.db.execute("SELECT number FROM gaps WHERE detail = ?", (salvage.LOST,)).fetchall()
            self._work.run(Changes(acknowledged_gaps=[n for (n,) in losses]))  # there were none after all
        with suppress(sqlite3.Error, OSError):
            for stored, data in salvage.payloads(self.left.path):
                self.leave_room()
                payloads = self._work.take_over_payload(stored, data, lost=payloads)
        log.error(
            "outbox: %d records and %d payloads were saved from %s, %d and %d are lost",
            self.tally.get("pending"),
            self.tally.get("payloads_pending"),
            self.left.path,
            records,
            payloads,
        )

    @property
    def _work(self) -> Transaction:
        return Transaction(self.db, self.tally, self.bounds, self.left.ledger.get("uptime_us", 0))
