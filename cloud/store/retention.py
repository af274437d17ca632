"""How long records are kept: those that arrived before a cut go, with their pictures, a bounded number at a time.

One `prune` holds the store for a few milliseconds, so that acks stay fast. What was pruned is not counted as lost: it
was kept as long as the file says. Gaps go with the records they explain.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, bindparam, delete, select

from cloud.store.payloads import Payloads
from cloud.store.records import RecordStore
from cloud.store.row import KEY
from cloud.store.tables import gaps, payloads, records

AT_MOST = 200
_JUMP_US = 3_600_000_000
_BELIEVED_AFTER_US = 24 * 3_600_000_000


class Calendar:
    """The wall clock, as far as deleting may believe it: one that jumps ahead by more than an hour is not believed
    until it has stood for a day, so that a wrong date costs no record."""

    def __init__(self) -> None:
        self._at: tuple[int, int] | None = None
        self._jumped_us: int | None = None

    def today_us(self, *, unix_us: int, mono_us: int) -> int | None:
        """`unix_us` if it is believed, else None. `mono_us`: a clock that only ticks."""
        if self._at is None:
            self._at = (unix_us, mono_us)
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

    def prune(self, before_unix_us: int, *, at_most: int = AT_MOST) -> Pruned:
        """Forget what arrived before then, `at_most` records and as many gaps. Raises Retryable."""
        gap_key = [column.name for column in gaps.primary_key.columns]
        with self._store.reading() as connection:
            same = and_(*(payloads.c[name] == records.c[name] for name in KEY))
            old = connection.execute(
                select(*(records.c[name] for name in KEY), payloads.c.sha256)
                .select_from(records.join(payloads, same, isouter=True))
                .where(records.c.received_unix_us < before_unix_us)
                .order_by(records.c.received_unix_us)
                .limit(at_most)
            )
            keys: list[Mapping[str, Any]] = [dict(found) for found in old.mappings()]
            old_gaps = connection.execute(
                select(*(gaps.c[name] for name in gap_key))
                .where(gaps.c.received_unix_us < before_unix_us)
                .limit(at_most)
            )
            gap_keys: list[Mapping[str, Any]] = [dict(found) for found in old_gaps.mappings()]
        if self._payloads is not None:  # first: a crash then leaves a record without its picture
            self._payloads.forget((key, key["sha256"]) for key in keys if key["sha256"] is not None)
        with self._store.writing() as connection:
            for table, names, found in (
                (payloads, KEY, keys),
                (records, KEY, keys),
                (gaps, gap_key, gap_keys),
            ):
                if found:
                    connection.execute(
                        delete(table).where(*(table.c[name] == bindparam(f"b_{name}") for name in names)),
                        [{f"b_{name}": key[name] for name in names} for key in found],
                    )
        full = at_most in (len(keys), len(gap_keys))
        return Pruned(records=len(keys), gaps=len(gap_keys), more=full)
