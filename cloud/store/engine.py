"""How the record store's database is opened: for several threads, and for several workers on one file."""

import sqlite3
import time
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Connection, Engine

WRITES = "nearfar_writes"
_BUSY_S = 5.0
_BUSY_STEP_S = 0.005


def open_engine(url: URL, *, read_only: bool) -> Engine:
    """Transactions of connections with the execution option `WRITES` wait their turn, up to 5 s, before they begin."""
    # the writer thread and readers on other threads each get their own connection from the pool
    engine = create_engine(url, connect_args={"timeout": _BUSY_S})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        if read_only:
            connection.execute("PRAGMA query_only=ON")
            return
        _use_wal(connection)
        # an agent forgets what was acked, so an acked commit must survive a power loss
        connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads before it writes can be refused without waiting for another worker's to end; one
        # that takes the lock first waits its turn.
        writes = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _use_wal(connection: Any) -> None:
    """The one step SQLite does not wait for while another worker takes it too, on a new file."""
    until_s = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until_s:
                raise
            time.sleep(_BUSY_STEP_S)
        else:
            return
