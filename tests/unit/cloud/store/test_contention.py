"""A transaction another worker was in the way of is run again, quietly; anything else is not."""

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError, OperationalError

from cloud.store.sql.contention import Contended, in_turn
from pipelines.errors import ConfigError, Retryable

pytest.importorskip("psycopg")

from cloud.store.sql.postgres import PostgresDatabase


class ServersError(Exception):
    def __init__(self, sqlstate: str) -> None:
        super().__init__("as the server said it")
        self.sqlstate = sqlstate


def fault(sqlstate: str, doing: str = "write") -> Exception:
    database = PostgresDatabase(make_url("postgresql+psycopg://nearfar@127.0.0.1/none"), read_only=False)
    return database.fault(DBAPIError("SELECT", {}, ServersError(sqlstate)), doing)


@pytest.mark.parametrize("sqlstate", ["40P01", "40001", "55P03"])
def test_a_deadlock_and_a_lock_not_had_in_time_are_worth_the_same_again(sqlstate: str) -> None:
    assert type(fault(sqlstate)) is Contended


def test_a_server_out_of_disk_is_not_asked_again_at_once() -> None:
    assert type(fault("53100")) is Retryable


@pytest.mark.parametrize("sqlstate", ["42P01", "42703"])
def test_tables_of_another_program_are_no_record_store(sqlstate: str) -> None:
    assert isinstance(fault(sqlstate, "be opened"), ConfigError)


def test_a_transaction_is_run_again_while_another_is_in_its_way() -> None:
    tries: list[int] = []

    def transaction() -> str:
        tries.append(1)
        if len(tries) < 4:
            raise Contended("deadlock detected")
        return "done"

    assert in_turn(transaction) == "done"


def test_a_transaction_that_is_always_in_the_way_is_an_error_for_now() -> None:
    tries: list[int] = []

    def transaction() -> None:
        tries.append(1)
        raise Contended("deadlock detected")

    with pytest.raises(Retryable, match="deadlock"):
        in_turn(transaction)
    assert len(tries) == 4


def test_what_a_server_says_in_several_lines_is_one_line() -> None:
    database = PostgresDatabase(make_url("postgresql+psycopg://nearfar@127.0.0.1/none"), read_only=False)
    lost = OperationalError("SELECT", {}, Exception("server closed the connection\n\tThis probably means\n"))
    assert str(database.fault(lost, "write")).endswith(
        "cannot write: server closed the connection This probably means"
    )
