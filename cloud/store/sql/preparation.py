"""How a database becomes a record store: its tables, its id for life, and the step from an older format."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, inspect, select, update

from cloud.store.sql.database import NO_STORE, Database
from cloud.store.sql.tables import FORMAT, gaps, meta, metadata, payloads
from cloud.store.sql.upserts import Upserts
from pipelines.errors import ConfigError

PAYLOADS_KEY = "payloads_path"
_ANEW_KEY = "made_anew_unix_us"


@dataclass(frozen=True, slots=True)
class Found:
    """`store_id` names the store for life; `payloads_path` is the folder a worker last kept pictures in, or "". `was_there`:
    False for one that could not be made yet."""

    store_id: str
    payloads_path: str = ""
    was_there: bool = True


def prepare(
    connection: Connection, database: Database, upserts: Upserts, *, now_unix_us: int, again: Found | None
) -> Found:
    """Inside a writing transaction: make what is missing. `again`: what a running worker knows of the store, which is
    written to one that is made anew in its place; None: a new store gets a fresh name.

    Raises ConfigError for a format newer than this version.
    """
    database.claim(connection)
    new = not inspect(connection).has_table(meta.name)
    if not new:  # before anything is changed in what may be a newer version's
        _check(_read(connection), database)
    metadata.create_all(connection)
    pairs = {"store_id": secrets.token_hex(16) if again is None else again.store_id, "format": str(FORMAT)}
    if again is not None and again.payloads_path:
        pairs[PAYLOADS_KEY] = again.payloads_path
    if new and again is not None and again.was_there:
        pairs[_ANEW_KEY] = str(now_unix_us)
    upserts.meta.run(connection, [{"key": key, "value": value} for key, value in pairs.items()])
    _upgrade(connection, now_unix_us)
    return _found(_read(connection))


def made_anew_unix_us(connection: Connection) -> int:
    """When it took the place of one that was damaged or removed under a running worker; 0 = never."""
    return int(_read(connection).get(_ANEW_KEY, "0"))


def read(connection: Connection, database: Database) -> Found:
    """The same of a store that is only read. Raises ConfigError for one that must be brought up to date first."""
    pairs = _read(connection)
    _check(pairs, database)
    if int(pairs["format"]) < FORMAT:
        raise ConfigError(
            f"{database.shown} has format {pairs['format']} of an earlier version; "
            "start its worker once with this version, then read it"
        )
    return _found(pairs)


def _read(connection: Connection) -> dict[str, str]:
    pairs: Iterable[Any] = connection.execute(select(meta.c.key, meta.c.value))
    return {pair[0]: pair[1] for pair in pairs}


def _found(pairs: dict[str, str]) -> Found:
    return Found(pairs["store_id"], pairs.get(PAYLOADS_KEY, ""))


def _check(pairs: dict[str, str], database: Database) -> None:
    if not {"format", "store_id"} <= set(pairs) or not pairs["format"].isdecimal():
        raise ConfigError(f"{database.shown} {NO_STORE}")
    if int(pairs["format"]) > FORMAT:
        raise ConfigError(
            f"{database.shown} has format {pairs['format']}, this version knows {FORMAT}; use a newer nearfar"
        )


def _upgrade(connection: Connection, now_unix_us: int) -> None:
    """From format 1, whose gaps, and 2, whose payloads did not say when they came: now, as far as pruning goes. The
    tables that are new have been made."""
    if int(_read(connection)["format"]) == FORMAT:
        return
    for table in (gaps, payloads):
        column = table.c.received_unix_us
        if column.name not in {found["name"] for found in inspect(connection).get_columns(table.name)}:
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {column.name} BIGINT")
        connection.execute(update(table).where(column.is_(None)).values({column: now_unix_us}))
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    connection.execute(update(meta).where(meta.c.key == "format").values(value=str(FORMAT)))
