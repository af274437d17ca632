"""A record store in PostgreSQL, for workers on several hosts. Needs the extra `postgres`, loaded only when used.

A commit that returned is as durable as the server makes commits; `synchronous_commit = off` is turned on again for
these connections. A server that restarts, fails over or is cut off is an error for now, noticed within 15 s; the next
try connects anew. Workers that write the same rows at once wait for each other; should they block each other, the
server ends one of the two transactions, which is tried again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError

from cloud.store.sql.contention import Contended
from cloud.store.sql.database import NO_STORE, Work, refusal
from pipelines.errors import ConfigError, NearfarError, Rejected, Retryable

# libpq's own words; what the URL says in its query goes first
_CONNECT_ARGS = {
    "connect_timeout": "5",  # s
    "keepalives_idle": "5",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",  # ms
    "application_name": "nearfar",
}
_LOCK_TIMEOUT = "5s"
_PREPARING = 0x6E656172  # any number all workers agree on
# classes of SQLSTATE that blame the values: data, integrity, program limit (a key too long for its index)
_BLAMES_VALUES = ("22", "23", "54")
_READ_ONLY = "25006"  # it has become a standby: these connections are of no more use
_NOT_OURS = ("42P01", "42703")  # no such table, no such column: another program's, perhaps of the same name
_IN_THE_WAY = ("40P01", "40001", "55P03")  # a deadlock ended, a race lost, a lock not had in time
# wrong password, role or database, and no right to connect: told once, at the start
_FOR_A_PERSON = ("28P01", "28000", "3D000", "42501")


class PostgresDatabase:
    """`url`: `postgresql+psycopg://USER@HOST/DATABASE`; the password in it, in PGPASSWORD or in ~/.pgpass."""

    def __init__(self, url: URL, *, read_only: bool) -> None:
        """ConfigError when the URL names another driver."""
        if url.drivername not in ("postgresql", "postgresql+psycopg"):
            raise ConfigError(f"store.url: write postgresql+psycopg:// instead of {url.drivername}://")
        url = url.set(drivername="postgresql+psycopg")
        self.url = self.shown = url.set(query={}).render_as_string(hide_password=True)
        self.engine = _engine(url, read_only=read_only)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self.engine.begin() as connection:
            yield connection

    def write(self, work: Work) -> None:
        with self.writing() as connection:
            for statement, rows in work:
                statement.run(connection, rows)

    def claim(self, connection: Connection) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_PREPARING})")

    def still_there(self) -> bool:
        return True

    def fault(self, error: DBAPIError, doing: str) -> NearfarError:
        state: str = getattr(error.orig, "sqlstate", None) or ""
        words = " ".join(str(error.orig).split())  # libpq says it in lines
        if state.startswith(_BLAMES_VALUES) or (not state and _is_no_value(error)):
            return Rejected(refusal(self.shown, doing, words))
        if state in _IN_THE_WAY:
            return Contended(f"the record store {self.shown} cannot {doing}: {words}")
        if doing != "write" and state in _NOT_OURS:
            return ConfigError(f"{self.shown} {NO_STORE}")
        if doing == "be opened" and (state in _FOR_A_PERSON or _says_so(words)):
            return ConfigError(f"store.url: {self.shown} cannot be opened: {words}")
        if state == _READ_ONLY:
            self.engine.dispose()
        return Retryable(f"the record store {self.shown} cannot {doing}: {words}")

    def damaged(self, error: DBAPIError) -> bool:
        """Mending a server's files is its administrator's."""
        del error
        return False

    def set_aside(self) -> str:
        return ""

    def close(self) -> None:
        self.engine.dispose()


def _is_no_value(error: DBAPIError) -> bool:
    """The driver refused a value before the server saw it: there is no SQLSTATE, and the connection is whole."""
    return type(error.orig).__name__ in ("DataError", "ProgrammingError") and not error.connection_invalidated


def _says_so(words: str) -> bool:
    """libpq gives no SQLSTATE for what went wrong while connecting, only the server's words."""
    return any(sign in words for sign in ("authentication failed", "does not exist", "no pg_hba.conf entry"))


def _engine(url: URL, *, read_only: bool) -> Engine:
    arguments = {name: value for name, value in _CONNECT_ARGS.items() if name not in url.query}
    # positional parameters, as SQLite has them: rows are handed over as tuples
    engine = create_engine(url, connect_args=arguments, paramstyle="format")

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
            cursor.execute("SET TIME ZONE 'UTC'")
            if read_only:
                cursor.execute("SET default_transaction_read_only = on")
            else:  # an agent forgets what was acked, so an acked commit must survive a power loss
                cursor.execute(
                    "SELECT set_config('synchronous_commit', 'on', false) "
                    "WHERE current_setting('synchronous_commit') = 'off'"
                )
        connection.commit()

    return engine
