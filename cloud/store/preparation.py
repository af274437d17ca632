"""How a database becomes a record store: its tables, its id for life, and the step from an older format."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, inspect, select, update

from cloud.store.database import Database
from cloud.store.tables import FORMAT, gaps, meta, metadata
from cloud.store.upserts import Upserts
from pipelines.errors import ConfigError

PAYLOADS_KEY = "payloads_path"


@dataclass(frozen=True, slots=True)
class Found:
    """`store_id` names the store for life; `payloads_path` is the folder a worker last kept pictures in, or ""."""

    store_id: str
    payloads_path: str = ""


def prepare(connection: Connection, database: Database, upserts: Upserts, *, new_id: str | None) -> Found:
    """Inside a writing transaction: make what is missing. `new_id`: what a new store is called; None: a fresh name.

    Raises ConfigError for a format newer than this version.
    """
    database.claim(connection)
    new = not inspect(connection).has_table(meta.name)
    if not new:  # before anything is changed in what may be a newer version's
        _check(_read(connection), database)
    metadata.create_all(connection)
    pairs = (("store_id", new_id or secrets.token_hex(16)), ("format", str(FORMAT)))
    upserts.meta.run(connection, [{"key": key, "value": value} for key, value in pairs])
    _upgrade(connection)
    return _found(_read(connection))


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
    if not {"format", "store_id"} <= set(pairs):
        raise ConfigError(f"{database.shown} is no record store")
    if int(pairs["format"]) > FORMAT:
        raise ConfigError(
            f"{database.shown} has format {pairs['format']}, this version knows {FORMAT}; use a newer nearfar"
        )


def _upgrade(connection: Connection) -> None:
    """From format 1, whose gaps did not say when they came. The tables that are new have been made."""
    if _read(connection)["format"] == "1":
        connection.exec_driver_sql(f"ALTER TABLE {gaps.name} ADD COLUMN received_unix_us BIGINT")
        connection.execute(update(meta).where(meta.c.key == "format").values(value=str(FORMAT)))
