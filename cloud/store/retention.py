"""How long records are kept: those that arrived before a cut go, with their pictures, a bounded number at a time.

One `prune` holds the store for a few milliseconds, so that acks stay fast. What was pruned is not counted as lost: it
was kept as long as the file says. Gaps go with the records they explain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, and_, bindparam, delete, exists, func, select
from sqlalchemy.engine import Connection, CursorResult

from cloud.store.key import KEY
from cloud.store.payloads import references
from cloud.store.payloads.store import Payloads
from cloud.store.records import RecordStore
from cloud.store.sql.contention import in_turn
from cloud.store.sql.tables import gaps, payloads, records

AT_MOST = 200
_JUMP_US = 3_600_000_000
_AWAY_US = 7 * 24 * 3_600_000_000
_BELIEVED_AFTER_US = 24 * 3_600_000_000


class Calendar:
    """The wall clock, as far as deleting may believe it: one that jumps ahead by more than an hour is not believed
    until it has stood for a day, so that a wrong date costs no record. Nor is one that is ahead of the newest record by
    more than a week at the start (None: there is none)."""

    def __init__(self, newest_unix_us: int | None = None) -> None:
        self._newest_unix_us = newest_unix_us
        self._at: tuple[int, int] | None = None
        self._jumped_us: int | None = None

    def today_us(self, *, unix_us: int, mono_us: int) -> int | None:
        """`unix_us` if it is believed, else None. `mono_us`: a clock that only ticks."""
        if self._at is None:
            newest_us = self._newest_unix_us
            doubtful = newest_us is not None and unix_us - newest_us > _AWAY_US
            self._at = (newest_us if newest_us is not None and doubtful else unix_us, mono_us)
        then_unix_us, then_mono_us = self._at
        expected_us = then_unix_us + (mono_us - then_mono_us)
        if unix_us - expected_us <= _JUMP_US:
            self._at = (unix_us, mono_us)
            self._jumped_us = None
            return unix_us
        if self._jumped_us is None:
            self._jumped_us = mono_us
        if mono_us - self._jumped_us < _BELIEVED_AFTER_US:
            return None
        self._at = (unix_us, mono_us)
        self._jumped_us = None
        return unix_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """`more`: there is more to do at once."""

    records: int = 0
    gaps: int = 0
    more: bool = False


class Retention:
    """`payloads`: the pictures that go with the records, if this worker keeps any."""

    def __init__(self, store: RecordStore, payloads: Payloads | None) -> None:
        self._store = store
        self._payloads = payloads

    def newest_unix_us(self) -> int | None:
        """When the newest record arrived, by the clock of then; None if there is none. Raises Retryable."""
        with self._store.reading() as connection:
            newest: int | None = connection.execute(select(func.max(records.c.received_unix_us))).scalar_one()
        return newest

    def prune(self, before_unix_us: int, *, at_most: int = AT_MOST) -> Pruned:
        """Forget what arrived before then: `at_most` records, as many gaps and as many pictures whose records never came.
        Raises Retryable."""
        with self._store.reading() as connection:
            keys = _sorted(connection.execute(_OLD_RECORDS, _bounds(before_unix_us, at_most)), KEY)
            gap_keys = _sorted(connection.execute(_OLD_GAPS, _bounds(before_unix_us, at_most)), _GAP_KEY)
            alone = _sorted(connection.execute(_OLD_ALONE, _bounds(before_unix_us, at_most)), KEY)
        pictured = [key for key in (*keys, *alone) if key["sha256"] is not None]
        if self._payloads is not None:  # first: a crash then leaves a record without its picture
            self._payloads.forget((key, key["sha256"]) for key in pictured)

        def transaction() -> None:
            with self._store.writing() as connection:
                if self._payloads is None:
                    references.remove(connection, pictured)
                _delete(connection, records, KEY, keys)
                _delete(connection, gaps, _GAP_KEY, gap_keys)

        in_turn(transaction)
        full = at_most in (len(keys), len(gap_keys), len(alone))
        return Pruned(records=len(keys), gaps=len(gap_keys), more=full)


_GAP_KEY = tuple(column.name for column in gaps.primary_key.columns)
_SAME = and_(*(payloads.c[name] == records.c[name] for name in KEY))
_OLD_RECORDS = (
    select(*(records.c[name] for name in KEY), payloads.c.sha256)
    .select_from(records.join(payloads, _SAME, isouter=True))
    .where(records.c.received_unix_us < bindparam("before"))
    .order_by(records.c.received_unix_us)
    .limit(bindparam("at_most"))
)
_OLD_GAPS = (
    select(*(gaps.c[name] for name in _GAP_KEY))
    .where(gaps.c.received_unix_us < bindparam("before"))
    .limit(bindparam("at_most"))
)
_OLD_ALONE = (
    select(*(payloads.c[name] for name in KEY), payloads.c.sha256)
    .where(payloads.c.received_unix_us < bindparam("before"), ~exists().where(_SAME))
    .limit(bindparam("at_most"))
)


def _bounds(before_unix_us: int, at_most: int) -> dict[str, int]:
    return {"before": before_unix_us, "at_most": at_most}


def _sorted(found: CursorResult[Any], names: Sequence[str]) -> list[Mapping[str, Any]]:
    """In the order in which whoever commits locks rows."""
    return sorted((dict(row) for row in found.mappings()), key=lambda row: [row[name] for name in names])


def _delete(
    connection: Connection, table: Table, names: Sequence[str], found: Sequence[Mapping[str, Any]]
) -> None:
    if found:
        connection.execute(
            delete(table).where(*(table.c[name] == bindparam(f"b_{name}") for name in names)),
            [{f"b_{name}": key[name] for name in names} for key in found],
        )
