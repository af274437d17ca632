"""Which records somebody wants to see: what the database can tell by itself, and what only the boxes can."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Select, func, literal, or_, select, tuple_

from cloud.store.key import KEY, key_of
from cloud.store.payloads.ref import COLUMNS
from cloud.store.row import RecordRow
from cloud.store.sql.tables import blobs, gaps, payloads, records
from pipelines.agreement import disagree
from pipelines.result import AnsweredBy

PAYLOAD_PREFIX = "payload_"
KEPT = "payload_kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Every condition that is given must hold. `run`: the first hex digits of one. `since_us` and `until_us`: wall
    clock, of the capture if the gateway knew it, else of the arrival; until is exclusive. `label`, `score_above` and
    `score_below` ask for one box that has all of them, among far's boxes if there are any, else those given.
    `disagree`: far saw what near, or the tracker, did not say, or the other way round."""

    agent: str | None = None
    stream: str | None = None
    run: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    by: AnsweredBy | None = None
    label: str | None = None
    score_above: float | None = None
    score_below: float | None = None
    disagree: bool = False
    with_payload: bool = False

    @property
    def is_everything(self) -> bool:
        return self == Query()

    @property
    def suits_gaps(self) -> bool:
        """Whether it asks for nothing that only an answer has."""
        return self.by is None and not self._asks_for_boxes and not self.disagree

    @property
    def asks_for_more(self) -> bool:
        """Than the database can tell: rows that `statement` finds need not match."""
        return self._asks_for_boxes or self.disagree

    @property
    def _asks_for_boxes(self) -> bool:
        return self.label is not None or self.score_above is not None or self.score_below is not None

    def statement(self) -> Select[Any]:
        """Rows that may match, each with its payload, in no order yet."""
        ref = [payloads.c[name].label(PAYLOAD_PREFIX + name) for name in COLUMNS]
        same = [payloads.c[name] == records.c[name] for name in KEY]
        joined = records.join(payloads, _all(same), isouter=not self.with_payload).join(
            blobs, blobs.c.sha256 == payloads.c.sha256, isouter=not self.with_payload
        )
        found = select(records, *ref, blobs.c.sha256.is_not(None).label(KEPT)).select_from(joined)
        for name in ("agent", "stream"):
            if getattr(self, name) is not None:
                found = found.where(records.c[name] == getattr(self, name))
        if self.run is not None:
            found = found.where(records.c.run.startswith(self.run.lower(), autoescape=True))
        if self.by is not None:
            found = found.where(records.c.answered_by == self.by.value)
        when = func.coalesce(func.nullif(records.c.captured_unix_us, 0), records.c.received_unix_us)
        if self.since_us is not None:
            found = found.where(when >= self.since_us)
        if self.until_us is not None:
            found = found.where(when < self.until_us)
        if self.disagree:
            found = found.where(records.c.far_detections.is_not(None), records.c.detections.is_not(None))
        return found

    def page(self, after: RecordRow | None, *, newest_first: bool) -> Select[Any]:
        """`statement` from behind that row, by identity or the newest by arrival first."""
        key = tuple_(*(records.c[name] for name in KEY))
        found = self.statement().order_by(
            *([records.c.received_unix_us.desc()] if newest_first else []), *(records.c[name] for name in KEY)
        )
        if after is None:
            return found
        beyond = key > tuple_(
            *(literal(value, records.c[name].type) for name, value in key_of(after.id).items())
        )
        if not newest_first:
            return found.where(beyond)
        arrival = records.c.received_unix_us
        earlier = arrival < after.received_unix_us
        return found.where(arrival <= after.received_unix_us, or_(earlier, beyond))

    def gap_statement(self) -> Select[Any]:
        """Gaps of the agent, stream and run; by arrival where times are asked for."""
        found = select(gaps)
        for name in ("agent", "stream"):
            if getattr(self, name) is not None:
                found = found.where(gaps.c[name] == getattr(self, name))
        if self.run is not None:
            found = found.where(gaps.c.run.startswith(self.run.lower(), autoescape=True))
        if self.since_us is not None:
            found = found.where(gaps.c.received_unix_us >= self.since_us)
        if self.until_us is not None:
            found = found.where(gaps.c.received_unix_us < self.until_us)
        return found

    def wants(self, row: RecordRow) -> bool:
        """Whether the boxes of a row that `statement` found are as asked for."""
        return self._has_the_box(row) and (not self.disagree or disagree(row.detections, row.far_detections))

    def _has_the_box(self, row: RecordRow) -> bool:
        if not self._asks_for_boxes:
            return True
        best = row.best
        if best is None:
            return False
        right = best.scores >= 0
        if self.score_above is not None:
            right &= best.scores > self.score_above
        if self.score_below is not None:
            right &= best.scores < self.score_below
        if self.label is not None:
            ids = [number for number, name in enumerate(best.labels) if name == self.label]
            right &= np.isin(best.class_ids, ids)
        return bool(right.any())


def payload_part(found: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the payload in a row of `Query.statement`, by their own names."""
    return {name: found[PAYLOAD_PREFIX + name] for name in COLUMNS}


def _all(conditions: list[Any]) -> Any:
    joined = conditions[0]
    for condition in conditions[1:]:
        joined &= condition
    return joined
