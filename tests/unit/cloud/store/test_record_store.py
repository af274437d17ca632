"""The record store's edges: what it refuses, and a writer whose disk refuses for a while."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from cloud.store.query import Query
from cloud.store.records import open_store
from cloud.store.writer import Entry, StoreWriter, ranges
from pipelines.errors import ConfigError, Rejected, Retryable
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Record, Status
from protos.wire.bulk import RecordRange
from tests.support.eventually import eventually

RUN = bytes(16)


def far(seq: int) -> Record:
    return Record(id=FrameId("gw", RUN, "door", seq), answered_by=AnsweredBy.FAR, status=Status.OK)


def test_a_store_of_another_kind_is_refused_with_words_and_without_its_password() -> None:
    with pytest.raises(ConfigError, match=r"no mysql stores; use sqlite:////path/records\.db or postgresql"):
        open_store("mysql://u:secret@h/db")
    with pytest.raises(ConfigError, match="no URL"):
        open_store("records.db")
    with pytest.raises(ConfigError, match=r"no URL") as refused:
        open_store("postgresql+psycopg://u:secret@h:notaport/db")
    assert "secret" not in str(refused.value)


def test_a_postgresql_store_without_its_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setattr(
            "pipelines.registry.find_spec", lambda name: None if name == "psycopg" else find_spec(name)
        )
        with pytest.raises(ConfigError, match=r"psycopg.*pip install 'nearfar\[postgres\]'"):
            open_store("postgresql+psycopg://u@h/db")
    with pytest.raises(ConfigError, match=r"write postgresql\+psycopg:// instead of postgresql\+psycopg2://"):
        open_store("postgresql+psycopg2://u@h/db")


def test_reading_a_store_that_is_not_there_does_not_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no record store"):
        open_store(f"sqlite:///{tmp_path}/none.db", read_only=True)
    assert not (tmp_path / "none.db").exists()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    notes = b"no database at all" * 100
    (tmp_path / "notes.txt").write_bytes(notes)
    with pytest.raises(ConfigError, match=r"is no SQLite database; is store\.url right"):
        open_store(f"sqlite:///{tmp_path}/notes.txt")
    assert (tmp_path / "notes.txt").read_bytes() == notes


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    open_store(url).close()
    connection = sqlite3.connect(tmp_path / "new.db")
    with connection:
        connection.execute("UPDATE meta SET value='99' WHERE key='format'")
    connection.close()
    with pytest.raises(ConfigError, match="newer nearfar"):
        open_store(url)


def test_a_number_too_large_for_the_store_is_rejected_and_not_retried(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/a.db") as store, pytest.raises(Rejected, match="cannot be stored"):
        store.commit(far=[far(2**64 - 1)], now_unix_us=1)


def test_a_locked_database_is_worth_another_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cloud.store.sql.sqlite.create_engine",
        lambda url, **_: sqlalchemy.create_engine(url, connect_args={"timeout": 0.0}),
    )
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        other = sqlite3.connect(tmp_path / "a.db")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Retryable, match="locked"):
            store.commit(far=[far(1)], now_unix_us=1)
        other.rollback()
        other.close()
        store.commit(far=[far(1)], now_unix_us=1)
        assert len(store.identities()) == 1


def test_ranges_join_neighbours_and_never_cover_a_hole() -> None:
    ids = [FrameId("gw", RUN, "door", n) for n in (3, 1, 2, 5)] + [FrameId("gw", RUN, "yard", 4)]
    assert ranges(ids) == (
        RecordRange(run=RUN, stream="door", first=1, last=3),
        RecordRange(run=RUN, stream="door", first=5, last=5),
        RecordRange(run=RUN, stream="yard", first=4, last=4),
    )


class ScriptedStore:
    """Refuses while `broken`, never takes seq 13, fails on 666 for no reason, and remembers what it took."""

    def __init__(self) -> None:
        self.broken = threading.Event()
        self.tried = 0
        self.taken: list[int] = []

    def commit(self, *, far: Any = (), given: Any = (), **_: Any) -> None:
        self.tried += 1
        seqs = [r.id.seq for r in (*far, *given)]
        if self.broken.is_set():
            raise Retryable("the disk is full")
        if 13 in seqs:
            raise Rejected("13 cannot be stored")
        if 666 in seqs:
            raise MemoryError
        self.taken += seqs


class Bench:
    def __init__(self, max_pending: int = 1000, store: ScriptedStore | None = None) -> None:
        self.store = store or ScriptedStore()
        self.acked: list[int] = []
        self.acked_entries: list[Entry] = []
        self.now_us = 0
        self.writer = StoreWriter(
            self.store,
            commit_every_us=0,
            acknowledge=self._acknowledge,
            clock_us=lambda: self.now_us,
            unix_us=lambda: 1,
            max_pending=max_pending,
        )

    def _acknowledge(self, entries: Sequence[Entry]) -> None:
        self.acked_entries += entries
        self.acked += [r.id.seq for e in entries for r in (*e.far, *e.given)]


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.writer.stop(0)


def test_nothing_is_acknowledged_while_the_disk_refuses_and_everything_after(bench: Bench) -> None:
    bench.store.broken.set()
    bench.writer.start()
    for seq in (1, 2, 3):
        assert bench.writer.submit(Entry(far=[far(seq)]))
    eventually(lambda: bench.store.tried > 0, what="a try")
    eventually(lambda: "full" in bench.writer.trouble, what="words about it")
    assert bench.acked == []
    bench.store.broken.clear()
    eventually(lambda: sorted(bench.acked) == [1, 2, 3], what="acks")
    assert bench.writer.trouble == ""
    assert bench.writer.pending == 0


def test_one_record_that_cannot_be_stored_does_not_hold_up_the_others(bench: Bench) -> None:
    for seq in (12, 13, 14):
        bench.writer.submit(Entry(far=[far(seq)]))
    bench.writer.start()
    assert bench.writer.flush(5_000_000)
    assert bench.acked == [12, 14]
    assert bench.writer.rejected == 1


def test_a_batch_is_acknowledged_without_the_rows_that_can_never_be_stored(bench: Bench) -> None:
    bench.writer.submit(Entry(given=[far(seq) for seq in range(1, 257)], batch=5, set_aside=1))
    bench.writer.submit(Entry(given=[far(13)], batch=6))
    bench.writer.start()
    assert bench.writer.flush(5_000_000)
    assert bench.acked == [seq for seq in range(1, 257) if seq != 13]
    assert [(e.batch, e.set_aside) for e in bench.acked_entries] == [(5, 2), (6, 1)]
    assert sorted(bench.store.taken) == bench.acked
    assert (bench.writer.committed, bench.writer.rejected, bench.writer.dropped) == (255, 2, 0)
    assert bench.store.tried < 30


def test_a_batch_the_writer_failed_on_for_no_known_reason_is_never_acknowledged(bench: Bench) -> None:
    bench.writer.submit(Entry(given=[far(seq) for seq in (65, 666)], batch=5))
    bench.writer.submit(Entry(given=[far(67)], batch=6))
    bench.writer.start()
    assert bench.writer.flush(5_000_000)
    assert [e.batch for e in bench.acked_entries] == [6]
    assert (bench.writer.committed, bench.writer.rejected, bench.writer.dropped) == (1, 0, 2)


def test_a_stop_in_the_middle_of_dividing_a_batch_leaves_it_unacknowledged() -> None:
    class BreaksAfterOne(ScriptedStore):
        def commit(self, **rows: Any) -> None:
            if self.taken:
                self.broken.set()
            super().commit(**rows)

    bench = Bench(store=BreaksAfterOne())
    bench.writer.submit(Entry(given=[far(seq) for seq in (12, 13, 14)], batch=5))
    bench.writer.start()
    eventually(lambda: bench.writer.trouble, what="a disk that refuses")
    assert not bench.writer.stop(1_000)
    assert bench.store.taken == [12]
    assert bench.acked_entries == []


def test_no_free_connection_is_no_fault_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cloud.store.sql.sqlite.create_engine",
        lambda url, **_: sqlalchemy.create_engine(url, pool_size=1, max_overflow=0, pool_timeout=0.01),
    )
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        store.commit(far=[far(1)], now_unix_us=1)
        with store.reading(), pytest.raises(Retryable, match="cannot write"):
            store.commit(far=[far(2)], now_unix_us=1)


def test_what_waits_is_bounded_and_what_is_dropped_is_never_acknowledged() -> None:
    bench = Bench(max_pending=2)
    assert [bench.writer.submit(Entry(far=[far(seq)])) for seq in (1, 2, 3)] == [True, True, False]
    bench.writer.start()
    assert bench.writer.stop(5_000_000)
    assert bench.acked == [1, 2]
    assert bench.writer.dropped == 1


def test_stopping_commits_what_waits(bench: Bench) -> None:
    bench.writer.start()
    bench.writer.submit(Entry(far=[far(1)]))
    assert bench.writer.stop(5_000_000)
    assert (bench.store.taken, bench.acked) == ([1], [1])


def test_a_stop_while_the_disk_refuses_says_that_something_stayed_behind(bench: Bench) -> None:
    bench.store.broken.set()
    bench.writer.start()
    bench.writer.submit(Entry(far=[far(1)]))
    eventually(lambda: bench.store.tried > 0, what="a try")
    assert not bench.writer.stop(1_000)
    assert bench.acked == []


def test_a_question_no_database_can_hold_blames_no_record(tmp_path: Path) -> None:
    with (
        open_store(f"sqlite:///{tmp_path}/a.db") as store,
        pytest.raises(Rejected, match="cannot be read: there is"),
    ):
        list(store.rows(Query(since_us=2**70)))
