"""Reading a large store, on every database: in short transactions, whole, and no further than asked."""

from collections.abc import Iterator

import pytest

from cloud.store import records as records_module
from cloud.store.query import Query
from cloud.store.records import RecordStore, open_store
from cloud.store.row import RecordRow, row_of
from pipelines.errors import ConfigError
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Record, Status
from tests.support.postgres import PostgresServer
from tests.support.stores import NewUrl

RUNS = (bytes(16), bytes(range(16)))
IDS = [
    FrameId(agent, run, stream, seq)
    for agent in ("Gw", "gw")
    for run in RUNS
    for stream in ("a", "b")
    for seq in (1, 2, 10)
]


@pytest.fixture
def store(new_url: NewUrl, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordStore]:
    monkeypatch.setattr(records_module, "_READ_ROWS", 5)
    with open_store(new_url()) as opened:
        for at, identity in enumerate(IDS):
            answer = Record(id=identity, answered_by=AnsweredBy.NEAR, status=Status.OK)
            opened.commit(given=[answer], now_unix_us=100 - at // 7)  # some came at one time
        yield opened


def test_pages_are_in_order_and_have_every_row_once(store: RecordStore) -> None:
    assert [row.id for row in store.rows()] == IDS
    newest = list(store.rows(newest_first=True))
    assert newest == sorted(newest, key=lambda row: (-row.received_unix_us, IDS.index(row.id)))
    assert {row.id for row in newest} == set(IDS)
    assert len(newest) == len(IDS)


def test_a_condition_holds_on_every_page(store: RecordStore) -> None:
    for newest_first in (False, True):
        found = [row.id for row in store.rows(Query(stream="b"), newest_first=newest_first)]
        assert sorted(found, key=IDS.index) == [i for i in IDS if i.stream == "b"]


def test_whoever_takes_long_over_a_row_keeps_no_transaction_open(store: RecordStore) -> None:
    reading = store.rows()
    next(reading)
    assert store.database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert len(list(reading)) == len(IDS) - 1


@pytest.mark.parametrize("query", [Query(), Query(score_below=2.0, stream="none"), Query(by=AnsweredBy.NEAR)])
def test_nothing_is_read_behind_the_last_row_that_was_asked_for(
    store: RecordStore, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(row: object, *, payload: object) -> RecordRow:
        read.append(1)
        return row_of(row, payload=payload)  # type: ignore[arg-type]

    monkeypatch.setattr("cloud.store.records.row_of", counted)
    found = list(store.rows(query, limit=3))
    assert len(read) == len(found)


@pytest.mark.service("postgres")
def test_a_table_of_the_same_name_of_another_program_is_said_to_be_no_record_store(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    schema = url.rpartition("%3D")[2]
    postgres.sql(f"CREATE TABLE {schema}.meta (id integer, title text)")
    for read_only in (True, False):
        with pytest.raises(ConfigError, match="is no record store"):
            open_store(url, read_only=read_only)
