"""A record store on a PostgreSQL server that restarts, is away, says no, or would be too easy on durability."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.store.query import Query
from cloud.store.records import RecordStore, open_store
from pipelines.errors import ConfigError, Rejected, Retryable
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Gap, GapReason, Record, Status
from protos.wire.bulk import Ack, BulkBatch
from protos.wire.live import Result
from protos.wire.records import pack
from protos.wire.session import Error, Lane
from tests.support.eventually import eventually
from tests.support.postgres import PASSWORD, PostgresServer
from tests.support.rigs import HELLO, RUN, rig_in
from tests.support.workers import clock_us

pytestmark = pytest.mark.service("postgres")


def far(seq: int, *, model: str = "m") -> Record:
    return Record(
        id=FrameId("gw", RUN, "door", seq), answered_by=AnsweredBy.FAR, status=Status.OK, model=model
    )


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_url()


@pytest.fixture
def store(url: str) -> Iterator[RecordStore]:
    with open_store(url) as opened:
        yield opened


def batch(number: int, *seqs: int) -> BulkBatch:
    records = [replace(far(seq), answered_by=AnsweredBy.NEAR) for seq in seqs]
    data, size_bytes = pack(records)
    return BulkBatch(batch=number, records_zstd=data, records_bytes=size_bytes)


def acked(acks: list[Ack]) -> set[int]:
    return {seq for ack in acks for r in ack.records for seq in range(r.first, r.last + 1)}


def test_while_the_server_is_away_frames_are_answered_and_nothing_is_acked_and_all_is_stored_when_it_is_back(
    postgres: PostgresServer, url: str, tmp_path: Path
) -> None:
    with rig_in(tmp_path, url=url) as rig:
        rig.welcome()
        bulk, bulk_session = rig.connect(replace(HELLO, lane=Lane.BULK))
        sent = 0

        def batch_acked() -> bool:
            """A batch that was refused while the server was away comes again, as a gateway sends it."""
            nonlocal sent
            if sent == len(bulk.all(Error)):
                bulk_session.receive(batch(7, 100, 101), clock_us())
                sent += 1
            return [a.batches for a in bulk.all(Ack)] == [(7,)]

        rig.frame(1)
        eventually(lambda: acked(rig.peer.all(Ack)) == {1}, what="the ack of frame 1")
        postgres.stop()
        try:
            rig.frame(2)
            rig.peer.wait(Result, 2)
            assert not batch_acked()
            eventually(lambda: rig.service.writer.trouble, 20.0, "words about it")
            rig.frame(3)
            rig.peer.wait(Result, 3)
            assert acked(rig.peer.all(Ack)) == {1}
            assert bulk.all(Ack) == []
            (words,) = rig.service.not_ready()
            assert "the record store" in words
            assert PASSWORD not in words
        finally:
            postgres.start()
        eventually(lambda: acked(rig.peer.all(Ack)) == {1, 2, 3}, 20.0, "the acks of what waited")
        eventually(batch_acked, 20.0, "the ack of the batch")
        assert rig.service.not_ready() == []
        assert [i.seq for i in rig.store.identities()] == [1, 2, 3, 100, 101]


def test_connections_the_server_ended_are_made_anew(postgres: PostgresServer, store: RecordStore) -> None:
    store.commit(far=[far(1)], now_unix_us=1)
    postgres.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'nearfar' AND pid <> pg_backend_pid()"
    )
    with pytest.raises(Retryable, match="cannot write"):
        store.commit(far=[far(2)], now_unix_us=1)
    store.commit(far=[far(2)], now_unix_us=1)
    assert [i.seq for i in store.identities()] == [1, 2]


def test_a_commit_is_durable_even_where_the_server_would_not_wait_for_its_disk(
    postgres: PostgresServer, url: str
) -> None:
    postgres.sql("ALTER ROLE nearfar SET synchronous_commit = off")
    try:
        with open_store(url) as store, store.writing() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    finally:
        postgres.sql("ALTER ROLE nearfar RESET synchronous_commit")


def test_what_only_a_person_can_mend_is_told_at_once_and_without_the_password(
    postgres: PostgresServer,
) -> None:
    wrong = postgres.url().replace(PASSWORD, "wrong-and-secret")
    for url in (wrong, postgres.url("no_such_database")):
        with pytest.raises(ConfigError, match="cannot be opened") as refused:
            open_store(url)
        assert "secret" not in str(refused.value)
        assert PASSWORD not in str(refused.value)


def test_a_server_that_is_not_there_yet_is_worth_another_try() -> None:
    with pytest.raises(Retryable, match="cannot be opened") as refused:
        open_store("postgresql+psycopg://u:secret@127.0.0.1:1/db")
    assert "secret" not in str(refused.value)


def test_reading_where_there_is_no_store_makes_none(postgres: PostgresServer, url: str) -> None:
    with pytest.raises(ConfigError, match="is no record store"):
        open_store(url, read_only=True)
    open_store(url).close()
    with open_store(url, read_only=True) as reader, pytest.raises(Retryable, match="read-only"):
        reader.commit(far=[far(1)], now_unix_us=1)


def test_a_password_is_in_nothing_the_store_shows(store: RecordStore) -> None:
    shown = f"{store.url} {store.database.shown} {store!r}"
    assert PASSWORD not in shown
    assert "127.0.0.1" in shown


def test_values_postgresql_cannot_hold_are_refused_for_good(store: RecordStore) -> None:
    with pytest.raises(Rejected, match="cannot be stored"):
        store.commit(far=[far(2**64 - 1)], now_unix_us=1)
    with pytest.raises(Rejected, match="cannot be stored"):
        store.commit(far=[far(1, model="nul\0")], now_unix_us=1)
    # a key longer than a page of the index takes, and that cannot be compressed
    detail = "".join(chr(0x4E00 + (n * 7919) % 20_000) for n in range(6000))
    gap = Gap(run=RUN, stream="door", first=1, last=2, reason=GapReason.SHED, detail=detail)
    with pytest.raises(Rejected, match="cannot be stored"):
        store.commit(gaps=[("gw", gap)], now_unix_us=1)
    store.commit(far=[far(1)], now_unix_us=1)


def test_a_question_postgresql_cannot_hold_blames_no_record(store: RecordStore) -> None:
    with pytest.raises(Rejected, match="cannot be read: there is no place in it"):
        list(store.rows(Query(since_us=2**70)))


def test_a_right_that_was_taken_away_blames_no_row(postgres: PostgresServer) -> None:
    postgres.sql("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    postgres.sql("CREATE SCHEMA guests AUTHORIZATION guest")
    guest = postgres.url().replace(f"nearfar:{PASSWORD}", "guest:guest")
    url = f"{guest}?options=-csearch_path%3Dguests"
    with open_store(url) as store:
        store.commit(far=[far(1)], now_unix_us=1)
        postgres.sql("ALTER TABLE guests.records OWNER TO nearfar")
        with pytest.raises(Retryable, match="permission denied"):
            store.commit(far=[far(2)], now_unix_us=1)
        postgres.sql("ALTER TABLE guests.records OWNER TO guest")
        store.commit(far=[far(2)], now_unix_us=1)
