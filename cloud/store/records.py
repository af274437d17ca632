"""The record store: one row per frame identity, far outranks near, the given answer is kept beside.

`commit` is one transaction and survives a power loss once it returned. It is idempotent, and far results and
given answers commute: in any order, in any number of commits and repeats, the row ends the same. An answer
is given once, so of two different ones the first to arrive stays; late flags and missing boxes are added.
Several workers on one host may share one SQLite file: each commit waits its turn, up to 5 s.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sqlalchemy import case, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError, StatementError

from cloud.store.engine import WRITES, open_engine
from cloud.store.row import KEY, RecordRow, far_row, gap_row, given_row, row_of
from cloud.store.tables import FORMAT, gaps, meta, metadata, records
from pipelines.errors import ConfigError, Fatal, Rejected, Retryable
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Gap, GapReason, Record

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
_READ_ROWS = 500
_NO_DATABASE = "not a database"
_DAMAGED = (_NO_DATABASE, "malformed")


def open_store(url: str, *, read_only: bool = False) -> "RecordStore":
    """The store at `url` (`sqlite:////absolute/path`); made if missing unless `read_only`.

    Raises ConfigError for a URL it cannot serve or a newer format, Retryable when the disk refuses for now.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(
            f"store.url {url!r} is no URL; write sqlite:////var/lib/nearfar/records.db"
        ) from error
    if parsed.get_backend_name() != "sqlite":
        raise ConfigError(
            f"store.url: {parsed.drivername} stores are not built yet; use sqlite:////path/records.db"
        )
    if not parsed.database or parsed.database == ":memory:":
        raise ConfigError("store.url: a record store needs a file; write sqlite:////path/records.db")
    path = Path(parsed.database)
    if read_only and not path.is_file():
        raise ConfigError(f"there is no record store at {path}")
    if not read_only:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"store.url: cannot make the folder {path.parent}: {error.strerror}") from error
    return RecordStore(parsed, read_only=read_only)


class RecordStore:
    """`store_id` names the store for life; every worker of an agent must share it. Safe for several threads."""

    def __init__(self, url: URL, *, read_only: bool) -> None:
        self.url = url.render_as_string(hide_password=True)
        self._engine = open_engine(url, read_only=read_only)
        self._writing = self._engine.execution_options(**{WRITES: True})
        try:
            self.store_id = self._prepare(url, read_only=read_only)
        except BaseException:
            self._engine.dispose()
            raise

    def _prepare(self, url: URL, *, read_only: bool) -> str:
        try:
            with (self._engine if read_only else self._writing).begin() as connection:
                if not read_only:
                    metadata.create_all(connection)
                    for key, value in (("store_id", secrets.token_hex(16)), ("format", str(FORMAT))):
                        connection.execute(insert(meta).values(key=key, value=value).on_conflict_do_nothing())
                pairs = connection.execute(select(meta.c.key, meta.c.value))
                found: dict[str, str] = {row[0]: row[1] for row in pairs}
        except DBAPIError as error:
            if _NO_DATABASE in str(error.orig):  # most often a healthy file of another kind
                raise ConfigError(
                    f"{url.database} is no SQLite database; is store.url right? If it is, the file is damaged: "
                    "restore a copy, or move it away"
                ) from error
            if any(words in str(error.orig) for words in _DAMAGED):
                raise Fatal(
                    f"{url.database} is damaged ({error.orig}); move it away, or restore a copy, and start again"
                ) from error
            if read_only and "no such table" in str(error.orig):
                raise ConfigError(f"{url.database} is no record store") from error
            raise Retryable(f"cannot open the record store {url.database}: {error.orig}") from error
        if int(found["format"]) > FORMAT:
            raise ConfigError(
                f"{url.database} has format {found['format']}, this version knows {FORMAT}; use a newer nearfar"
            )
        return found["store_id"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def commit(
        self,
        *,
        now_unix_us: int,
        far: Iterable[Record] = (),
        given: Iterable[Record] = (),
        gaps: Iterable[tuple[str, Gap]] = (),
    ) -> None:
        """All of it or nothing, durably. `far`: results of this worker; `given`: answers from agents; `gaps`:
        with the name of their agent.

        Raises Retryable when the disk refuses for now, Rejected when a value can never be stored.
        """
        try:
            far_rows = [far_row(record, now_unix_us) for record in far]
            given_rows = [given_row(record, now_unix_us) for record in given]
            gap_rows = [gap_row(agent, gap) for agent, gap in gaps]
            with self._writing.begin() as connection:
                for statement, rows in ((_FAR_SQL, far_rows), (_GIVEN_SQL, given_rows), (_GAP_SQL, gap_rows)):
                    statement.run(connection, rows)
        except DBAPIError as error:
            # sqlite3.IntegrityError, DataError and ProgrammingError blame the values, everything else the disk
            if type(error.orig).__name__ in {"IntegrityError", "DataError", "ProgrammingError"}:
                raise Rejected(f"a record cannot be stored: {error.orig}") from error
            raise Retryable(f"the record store cannot write: {error.orig}") from error
        except (StatementError, OverflowError, ValueError) as error:
            raise Rejected(f"a record cannot be stored: {error}") from error
        except (
            SQLAlchemyError
        ) as error:  # no connection to be had, for instance: nothing is wrong with the rows
            raise Retryable(f"the record store cannot write: {error}") from error

    def rows(self, *, limit: int | None = None, newest_first: bool = False) -> Iterator[RecordRow]:
        """Every row by identity, or the newest by arrival first. Read in pages, with no lock held between."""
        order: Sequence[Any] = (records.c.received_unix_us.desc(),) if newest_first else ()
        statement = select(records).order_by(*order, *(records.c[k] for k in KEY)).limit(limit)
        with self._reading() as connection:
            for part in (
                connection.execution_options(yield_per=_READ_ROWS).execute(statement).mappings().partitions()
            ):
                yield from (row_of(dict(m)) for m in part)

    def identities(self) -> list[FrameId]:
        """One per row, ordered; a list, so that whoever checks the promise of one row per frame can see two."""
        columns = [records.c[k] for k in KEY]
        statement = select(*columns).order_by(*columns)
        with self._reading() as connection:
            return [FrameId(a, bytes.fromhex(r), s, n) for a, r, s, n in connection.execute(statement)]

    def gaps(self) -> list[tuple[str, Gap]]:
        """`(agent, gap)`, ordered."""
        with self._reading() as connection:
            found = connection.execute(select(gaps).order_by(*gaps.primary_key.columns)).all()
        return [
            (
                g.agent,
                Gap(
                    run=bytes.fromhex(g.run),
                    stream=g.stream,
                    first=g.first,
                    last=g.last,
                    reason=GapReason(g.reason),
                    detail=g.detail,
                ),
            )
            for g in found
        ]

    def counts(self) -> dict[str, int]:
        """`records`, one per answerer (`near`, …; `unknown` = outcome not here yet), `on_time`, `late_far`, `gaps`."""
        late = records.c.far_status.is_not(None) & (records.c.answered_by != AnsweredBy.FAR.value)
        with self._reading() as connection:
            answerers = connection.execute(
                select(records.c.answered_by, func.count()).group_by(records.c.answered_by)
            )
            by: dict[str | None, int] = {row[0]: row[1] for row in answerers}
            on_time, late_far = connection.execute(
                select(
                    func.coalesce(func.sum(case((records.c.on_time, 1), else_=0)), 0),
                    func.coalesce(func.sum(case((late | records.c.late_far, 1), else_=0)), 0),
                )
            ).one()
            gap_count = connection.execute(select(func.count()).select_from(gaps)).scalar_one()
        return {
            "records": sum(by.values()),
            **{who.value: by.get(who.value, 0) for who in AnsweredBy},
            "unknown": by.get(None, 0),
            "on_time": int(on_time),
            "late_far": int(late_far),
            "gaps": int(gap_count),
        }

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A connection to read with. Fatal for a damaged file, Retryable when the disk refuses for now."""
        path = self._engine.url.database
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            if any(words in str(error.orig) for words in _DAMAGED):
                raise Fatal(
                    f"{path} is damaged ({error.orig}); restore a copy, or save what is left "
                    f"with: sqlite3 {path} .recover"
                ) from error
            raise Retryable(f"the record store {path} cannot be read: {error.orig}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise Fatal(f"{path} holds a row that no nearfar wrote ({error}); restore a copy") from error


def _statement(columns: Sequence[str], fill: Sequence[str] = ()) -> Any:
    """An upsert that writes `columns` only while the row has none, adds `fill`, and merges what is shared."""
    statement = insert(records)
    new = statement.excluded
    first = records.c[columns[0]]
    updates: dict[str, Any] = {
        name: case((first.is_(None), new[name]), else_=records.c[name])
        for name in columns
        if name not in fill
    }
    for name in fill:
        if name == "detections":
            updates[name] = func.coalesce(records.c[name], new[name])
        else:
            updates[name] = func.max(func.coalesce(records.c[name], 0), new[name])
    if "far_received_unix_us" in columns:
        updates["far_received_unix_us"] = func.min(
            func.coalesce(records.c.far_received_unix_us, new.far_received_unix_us), new.far_received_unix_us
        )
    updates["source"] = case((records.c.source == "live", records.c.source), else_=new.source)
    updates["received_unix_us"] = func.min(records.c.received_unix_us, new.received_unix_us)
    updates["updated_unix_us"] = func.max(records.c.updated_unix_us, new.updated_unix_us)
    return statement.on_conflict_do_update(index_elements=KEY, set_=updates)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A statement put into words once: done at every commit it takes longer than the rows, and meanwhile no thread
    answers a frame. `constants` are its own values, which come after those of a row."""

    words: str
    names: tuple[str, ...]
    constants: tuple[Any, ...]

    @classmethod
    def of(cls, statement: Any, names: Sequence[str]) -> Self:
        """`names` are the columns that every row gives."""
        compiled = statement.compile(dialect=sqlite.dialect(), column_keys=list(names))
        order: Sequence[str] = compiled.positiontup
        own = order[len(names) :]
        return cls(str(compiled), tuple(order[: len(names)]), tuple(compiled.params[name] for name in own))

    def run(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        values = [(*map(row.__getitem__, self.names), *self.constants) for row in rows]
        if values:
            connection.exec_driver_sql(self.words, values)


_SHARED = (*KEY, "source", "received_unix_us", "updated_unix_us")
_FAR_SQL = _Prepared.of(_statement(_FAR), (*_SHARED, *_FAR))
_GIVEN_SQL = _Prepared.of(_statement(_GIVEN, fill=("detections", "late_far")), (*_SHARED, *_GIVEN))
_GAP_SQL = _Prepared.of(insert(gaps).on_conflict_do_nothing(), gaps.columns.keys())
