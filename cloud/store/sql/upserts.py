"""The statements that write: each merges what arrives into what is there, so that order and repeats do not matter.

They are put into words once per database: done at every commit that takes longer than the rows, and meanwhile no
thread answers a frame.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import Table, case, false, func
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Dialect

from cloud.store.key import KEY
from cloud.store.sql.tables import blobs, gaps, meta, payloads, records

_GIVEN = (
    "answered_by",
    "status",
    "on_time",
    "latency_us",
    "captured_unix_us",
    "priority",
    "model",
    "model_sha256",
    "timing_us",
    "age_us",
    "detections",
    "late_far",
)
_FAR = (
    "far_status",
    "far_detections",
    "far_model",
    "far_model_sha256",
    "far_timing_us",
    "far_received_unix_us",
)
_SHARED = (*KEY, "source", "received_unix_us", "updated_unix_us")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement in words. `constants` are its own values, which come after those of a row."""

    words: str
    names: tuple[str, ...]
    constants: tuple[Any, ...]

    @classmethod
    def of(cls, statement: Any, names: Sequence[str], dialect: Dialect) -> Self:
        """`names` are the columns that every row gives."""
        compiled = statement.compile(dialect=dialect, column_keys=list(names))
        order: Sequence[str] = compiled.positiontup
        own = order[len(names) :]
        return cls(str(compiled), tuple(order[: len(names)]), tuple(compiled.params[name] for name in own))

    def values(self, rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        """What the driver is given, for each row."""
        return [(*map(row.__getitem__, self.names), *self.constants) for row in rows]

    def run(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> int:
        """How many rows it wrote."""
        values = self.values(rows)
        return connection.exec_driver_sql(self.words, values).rowcount if values else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserts:
    """`far`, `given`, `gap`: what a commit brings. `payload`: the largest of an identity stays. `blob`: seen again.
    `claim`: a blob, unless there is one. `meta`: the first stays."""

    far: Prepared
    given: Prepared
    gap: Prepared
    payload: Prepared
    blob: Prepared
    claim: Prepared
    meta: Prepared

    @classmethod
    def of(cls, dialect: Dialect) -> Self:
        sql = _Sql(dialect.name)
        return cls(
            far=Prepared.of(sql.record(_FAR), (*_SHARED, *_FAR), dialect),
            given=Prepared.of(
                sql.record(_GIVEN, fill=("detections", "late_far")), (*_SHARED, *_GIVEN), dialect
            ),
            gap=Prepared.of(sql.insert(gaps).on_conflict_do_nothing(), gaps.columns.keys(), dialect),
            payload=Prepared.of(sql.payload(), payloads.columns.keys(), dialect),
            blob=Prepared.of(sql.blob(), blobs.columns.keys(), dialect),
            claim=Prepared.of(sql.insert(blobs).on_conflict_do_nothing(), blobs.columns.keys(), dialect),
            meta=Prepared.of(sql.insert(meta).on_conflict_do_nothing(), meta.columns.keys(), dialect),
        )


class _Sql:
    """What SQLite and PostgreSQL call by different names."""

    def __init__(self, dialect: str) -> None:
        self._sqlite = dialect == "sqlite"

    def insert(self, table: Table) -> Any:
        return sqlite.insert(table) if self._sqlite else postgresql.insert(table)

    def larger(self, one: Any, other: Any) -> Any:
        return func.max(one, other) if self._sqlite else func.greatest(one, other)

    def smaller(self, one: Any, other: Any) -> Any:
        return func.min(one, other) if self._sqlite else func.least(one, other)

    def record(self, columns: Sequence[str], fill: Sequence[str] = ()) -> Any:
        """An upsert that writes `columns` only while the row has none, or an answer that was said to be out sooner; adds
        `fill`, and merges what is shared."""
        statement = self.insert(records)
        new = statement.excluded
        first = records.c[columns[0]]
        better = first.is_(None)
        if "latency_us" in columns:
            better |= new.latency_us > records.c.latency_us
        updates: dict[str, Any] = {
            name: case((better, new[name]), else_=records.c[name]) for name in columns if name not in fill
        }
        if "detections" in fill:
            updates["detections"] = func.coalesce(records.c.detections, new.detections)
        if "late_far" in fill:
            updates["late_far"] = func.coalesce(records.c.late_far, false()) | new.late_far
        if "far_received_unix_us" in columns:
            updates["far_received_unix_us"] = self.smaller(
                func.coalesce(records.c.far_received_unix_us, new.far_received_unix_us),
                new.far_received_unix_us,
            )
        updates["source"] = case((records.c.source == "live", records.c.source), else_=new.source)
        updates["received_unix_us"] = self.smaller(records.c.received_unix_us, new.received_unix_us)
        updates["updated_unix_us"] = self.larger(records.c.updated_unix_us, new.updated_unix_us)
        return statement.on_conflict_do_update(index_elements=KEY, set_=updates)

    def payload(self) -> Any:
        """The larger one is the better picture; of two of one size the choice only has to be the same everywhere."""
        statement = self.insert(payloads)
        new, old = statement.excluded, payloads.c
        larger = (new.size_bytes > old.size_bytes) | (
            (new.size_bytes == old.size_bytes) & (new.sha256 > old.sha256)
        )
        updates = {name: new[name] for name in payloads.columns.keys() if name not in KEY}  # noqa: SIM118 - a collection of columns
        return statement.on_conflict_do_update(index_elements=KEY, set_=updates, where=larger)

    def blob(self) -> Any:
        statement = self.insert(blobs)
        new = statement.excluded
        updates = {
            "worth": self.larger(blobs.c.worth, new.worth),
            "stored_unix_us": self.larger(blobs.c.stored_unix_us, new.stored_unix_us),
        }
        return statement.on_conflict_do_update(index_elements=["sha256"], set_=updates)
