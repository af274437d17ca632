"""The record store: one row per frame identity, far outranks near, the given answer is kept beside.

`commit` is one transaction and survives a power loss once it returned. It is idempotent, and far results and
given answers commute: in any order, in any number of commits and repeats, the row ends the same. An answer
is given once; a gateway that kept one for its deadline and released it after says so in a second record, so the one
that was out later stays, and the first to arrive of two that were out at once; late flags and missing boxes are added.
Several workers may share one store, a SQLite file on one host or PostgreSQL: each commit waits its turn, up to 5 s.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from sqlalchemy import delete, select
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError, StatementError

from cloud.store.full_disk import found_without_room
from cloud.store.key import KEY, id_of, in_order
from cloud.store.kinds import STORES
from cloud.store.payloads.ref import PayloadRef
from cloud.store.query import KEPT, Query, payload_part
from cloud.store.row import RecordRow, far_row, gap_of, gap_row, given_row, row_of
from cloud.store.sql import preparation
from cloud.store.sql.contention import in_turn
from cloud.store.sql.database import Database, DiskFullError, refusal
from cloud.store.sql.preparation import PAYLOADS_KEY
from cloud.store.sql.tables import gaps, meta, records
from cloud.store.sql.upserts import Upserts
from cloud.store.totals import totals
from pipelines.errors import ConfigError, Fatal, Rejected, Retryable
from pipelines.frame import FrameId
from pipelines.redaction import redacted
from pipelines.result import Gap, Record

log = logging.getLogger(__name__)

_READ_ROWS = 500
_EVERY = Query()


def open_store(url: str, *, read_only: bool = False) -> "RecordStore":
    """The store at `url` (`sqlite:////absolute/path`, `postgresql+psycopg://user@host/database`); made if missing
    unless `read_only`.

    Raises ConfigError for a URL it cannot serve, a missing driver or a newer format, Retryable when the disk or the
    server refuses for now.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ConfigError(
            f"store.url {redacted(url)!r} is no URL; write sqlite:////var/lib/nearfar/records.db"
        ) from error
    if parsed.get_backend_name() not in {kind.name for kind in STORES}:
        raise ConfigError(
            f"store.url: no {parsed.drivername} stores; use sqlite:////path/records.db "
            "or postgresql+psycopg://user@host/database"
        )
    database: Database = STORES[parsed.get_backend_name()].resolve()(parsed, read_only=read_only)
    return RecordStore(database, read_only=read_only)


class RecordStore:
    """`store_id` names the store for life; every worker of an agent must share it. `url` never shows a password.
    `set_aside`: damaged files moved away since the start. `trouble`: why it was opened without writing a byte, the disk being
    full; empty once something was written. Safe for several threads."""

    def __init__(self, database: Database, *, read_only: bool) -> None:
        self.url = database.url
        self.database = database
        self.set_aside = 0
        self.store_id = self.payloads_path = self.trouble = ""
        self._was_there = True
        self.upserts = Upserts.of(database.engine.dialect)
        try:
            found = self._read_meta() if read_only else self._prepared()
        except BaseException:
            database.close()
            raise
        self.store_id = found.store_id
        self.payloads_path = found.payloads_path
        self._was_there = found.was_there

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.database.close()

    def note_payloads(self, folder: Path) -> None:
        """Where the pictures are, for those who read the store, also one made anew in its place; on a full disk with the
        first that is written. Raises Retryable."""
        self.payloads_path = str(folder)
        try:
            with self.writing() as connection:
                connection.execute(delete(meta).where(meta.c.key == PAYLOADS_KEY))
                self.upserts.meta.run(connection, [{"key": PAYLOADS_KEY, "value": self.payloads_path}])
        except DiskFullError as error:
            self.trouble = str(error)

    def made_anew_unix_us(self, connection: Connection) -> int:
        """When it took the place of one that was damaged or removed under a running worker; 0 = never."""
        return preparation.made_anew_unix_us(connection)

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

        Raises Retryable when the disk or server refuses for now, Rejected when a value can never be stored.
        """
        try:
            far_rows = in_order(far_row(record, now_unix_us) for record in far)
            given_rows = in_order(given_row(record, now_unix_us) for record in given)
            gap_rows = [gap_row(agent, gap, now_unix_us) for agent, gap in gaps]
        except (OverflowError, ValueError) as error:
            raise Rejected(f"a record cannot be stored: {error}") from error
        work = [(self.upserts.far, far_rows), (self.upserts.given, given_rows), (self.upserts.gap, gap_rows)]

        def transaction() -> None:
            with self._found_by_all():
                self.database.write(work)

        in_turn(transaction)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction of this store, its errors in our words. Left without one, it is durable and will be found by
        whoever opens the store now: a file that was moved, removed or damaged meanwhile is Retryable, and the next
        transaction begins on a new one under the same id."""
        with self._found_by_all(), self.database.writing() as connection:
            yield connection

    @contextmanager
    def _found_by_all(self) -> Iterator[None]:
        """Around each transaction: what `writing` says of errors and of the file."""
        if self.trouble or not self.database.still_there():
            self.database.close()  # connections to what is no longer there
            self._prepare()
            self.trouble, self._was_there = "", True
        try:
            yield
        except DBAPIError as error:
            if self.database.damaged(error):
                self._set_aside(error)
                raise Retryable(
                    f"the record store {self.database.shown} was damaged; it is made anew"
                ) from error
            raise self.database.fault(error, "write") from error
        except (StatementError, OverflowError, ValueError) as error:
            raise Rejected(f"a record cannot be stored: {error}") from error
        except SQLAlchemyError as error:  # no connection to be had, for instance: the rows are all right
            raise Retryable(f"the record store cannot write: {error}") from error
        if not self.database.still_there():
            raise Retryable(f"the record store {self.database.shown} was moved or removed while in use")

    def rows(
        self, query: Query = _EVERY, *, limit: int | None = None, newest_first: bool = False
    ) -> Iterator[RecordRow]:
        """Rows that match, by identity or the newest by arrival first, `limit` at most. Read in pages, each a short
        transaction of its own, so whoever takes long over a row holds up no writer and no cleaning; what is written
        meanwhile behind the place reached is found as well."""
        left = limit
        after: RecordRow | None = None
        while left is None or left > 0:
            size = _READ_ROWS if left is None or query.asks_for_more else min(left, _READ_ROWS)
            page = self._page(query, after=after, size=size, newest_first=newest_first)
            for row in page:
                if not query.wants(row):
                    continue
                yield row
                left = None if left is None else left - 1
                if left == 0:
                    return
            if len(page) < size:
                return
            after = page[-1]

    def _page(
        self, query: Query, *, after: RecordRow | None, size: int, newest_first: bool
    ) -> list[RecordRow]:
        statement = query.page(after, newest_first=newest_first).limit(size)
        with self.reading() as connection:
            found = connection.execute(statement).mappings().all()
            return [row_of(dict(row), payload=_payload(row)) for row in found]

    def identities(self) -> list[FrameId]:
        """One per row, ordered; a list, so that whoever checks the promise of one row per frame can see two."""
        columns = [records.c[k] for k in KEY]
        statement = select(*columns).order_by(*columns)
        with self.reading() as connection:
            return [id_of(dict(found)) for found in connection.execute(statement).mappings()]

    def gaps(self, query: Query = _EVERY) -> list[tuple[str, Gap]]:
        """`(agent, gap)` of the agents, streams and runs asked for, ordered."""
        statement = query.gap_statement().order_by(*gaps.primary_key.columns)
        with self.reading() as connection:
            return [(found.agent, gap_of(found)) for found in connection.execute(statement)]

    def counts(self) -> dict[str, int]:
        """`records`, one per answerer (`near`, …; `unknown` = outcome not here yet), `on_time`, `late_far`, `gaps`."""
        with self.reading() as connection:
            return totals(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read with. Fatal for a damaged file, Retryable when disk or server refuses for now."""
        if not self._was_there:
            raise DiskFullError(self.trouble)
        try:
            with self.database.engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise self.database.fault(error, "be read") from error
        except SQLAlchemyError as error:
            raise Retryable(f"the record store {self.database.shown} cannot be read: {error}") from error
        except OverflowError as error:  # SQLite's driver says so of a number of more than 64 bits
            raise Rejected(refusal(self.database.shown, "be read", str(error))) from error
        except (ValueError, LookupError, TypeError) as error:
            raise Fatal(
                f"{self.database.shown} holds a row that no nearfar wrote ({error}); restore a copy"
            ) from error

    def _read_meta(self) -> preparation.Found:
        try:
            with self.database.engine.connect() as connection:
                return preparation.read(connection, self.database)
        except DBAPIError as error:
            raise self.database.fault(error, "be opened") from error

    def _prepared(self) -> preparation.Found:
        try:
            return self._prepare()
        except DiskFullError as error:
            self.trouble = str(error)
            return found_without_room(self.database, error)

    def _prepare(self) -> preparation.Found:
        """Make the store what it must be: once it has its id it stays this one, gone or not."""
        known = preparation.Found(self.store_id, self.payloads_path, was_there=self._was_there)
        again = known if self.store_id else None
        for last in (False, True):
            try:
                with self.database.writing() as connection:
                    found = preparation.prepare(
                        connection,
                        self.database,
                        self.upserts,
                        now_unix_us=time.time_ns() // 1000,
                        again=again,
                    )
            except DBAPIError as error:
                if last or not self.database.damaged(error):
                    raise self.database.fault(error, "be opened") from error
                if not self._set_aside(error):
                    raise self.database.fault(error, "be opened") from error
            except SQLAlchemyError as error:
                raise Retryable(
                    f"the record store {self.database.shown} cannot be opened: {error}"
                ) from error
            else:
                break
        if again is not None and found.store_id != again.store_id:
            raise Retryable(
                f"{self.database.shown} is now another record store; put the one back that was there, "
                "or start this worker again"
            )
        return found

    def _set_aside(self, error: DBAPIError) -> bool:
        """Whether the damaged database made room for a new one."""
        aside = self.database.set_aside()
        if aside:
            self.set_aside += 1
            log.error(
                "the record store %s is damaged (%s) and set aside as %s; what can be read of it: sqlite3 %s .recover",
                self.database.shown,
                error.orig,
                aside,
                aside,
            )
        return bool(aside)


def _payload(found: Any) -> PayloadRef | None:
    part = payload_part(found)
    return None if part["sha256"] is None else PayloadRef.of(part, kept=bool(found[KEPT]))
