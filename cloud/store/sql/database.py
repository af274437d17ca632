"""What the record store asks of a database: transactions, foreign errors in our words, and a word after each commit.

One class per kind, `SqliteDatabase` and `PostgresDatabase`; nobody else knows which one it is, but for the two
functions SQL never agreed on (`upserts`).
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from cloud.store.sql.upserts import Prepared
from pipelines.errors import NearfarError, Retryable


class DiskFullError(Retryable):
    """There is no room for what is to be written; there may be some later."""


Work = Sequence[tuple[Prepared, Sequence[Mapping[str, Any]]]]
"""Statements, in order, each with its rows."""


class Database(Protocol):
    """Safe for several threads."""

    @property
    def url(self) -> str:
        """Where it is; never with a secret, so not always enough to open it."""
        ...

    @property
    def shown(self) -> str:
        """What messages call it; never a secret."""
        ...

    @property
    def engine(self) -> Engine: ...

    def writing(self) -> AbstractContextManager[Connection]:
        """One transaction that waits its turn among other writers, some seconds at most. Durable once left."""
        ...

    def write(self, work: Work) -> None:
        """All of it in a transaction like that of `writing`, in as few steps as its driver allows: frames are answered
        meanwhile. Raises DBAPIError, and what the driver raises of values it cannot take."""
        ...

    def claim(self, connection: Connection) -> None:
        """Inside a transaction: let no other worker prepare the store meanwhile."""
        ...

    def still_there(self) -> bool:
        """Whether what was written is what somebody who opens the store now will read."""
        ...

    def fault(self, error: DBAPIError, doing: str) -> NearfarError:
        """The error in our words, to be raised by the caller: Rejected when the values are to blame, Retryable when
        it may pass, Fatal or ConfigError when only a person can help. `doing`: "write", "be read", "be opened"."""
        ...

    def damaged(self, error: DBAPIError) -> bool:
        """Whether the error says so."""
        ...

    def set_aside(self) -> str:
        """Move a damaged database away, so that a new one can take its place: its new name; "" where that cannot be."""
        ...

    def close(self) -> None: ...


NO_STORE = "is no record store; give the URL of one, or, to a worker, of an empty database"


def refusal(shown: str, doing: str, words: str) -> str:
    """What is said when a value is to blame for what could not be done."""
    if doing == "write":
        return f"a record cannot be stored: {words}"
    return f"the record store {shown} cannot {doing}: there is no place in it for what was asked for: {words}"
