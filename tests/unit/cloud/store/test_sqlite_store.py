"""A record store's SQLite file in trouble: full, damaged, moved away, of an earlier format."""

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.store.payloads.folder import SHARDS, PayloadFolder, content_hash
from cloud.store.payloads.store import Payload, Payloads
from cloud.store.payloads.writer import PayloadWriter
from cloud.store.query import Query
from cloud.store.records import RecordStore, open_store
from pipelines.errors import ConfigError, Retryable
from pipelines.frame import Encoding, FrameId
from pipelines.result import AnsweredBy, Gap, GapReason, Record, Status

RUN = bytes(16)


def far(seq: int, model: str = "m") -> Record:
    return Record(
        id=FrameId("gw", RUN, "door", seq), answered_by=AnsweredBy.FAR, status=Status.OK, model=model
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.db"


@pytest.fixture
def store(path: Path) -> Iterator[RecordStore]:
    with open_store(f"sqlite:///{path}") as opened:
        yield opened


def seqs(path: Path) -> list[int]:
    with open_store(f"sqlite:///{path}", read_only=True) as reader:
        return [identity.seq for identity in reader.identities()]


def overwrite(path: Path, *, keep_bytes: int = 100) -> None:
    """Everything but the header, as a bad card does; the log beside it is gone too."""
    for tail in ("-wal", "-shm"):
        path.with_name(path.name + tail).unlink(missing_ok=True)
    size_bytes = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(keep_bytes)
        file.write(b"\xa5" * (size_bytes - keep_bytes))


def test_a_full_disk_is_worth_another_try_and_costs_no_row(store: RecordStore, path: Path) -> None:
    store.commit(far=[far(1)], now_unix_us=1)
    with store.database.engine.connect() as connection:
        (pages,) = connection.exec_driver_sql("PRAGMA page_count").one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    large = [far(seq, model="x" * 4000) for seq in range(2, 12)]
    with pytest.raises(Retryable, match="full"):
        store.commit(far=large, now_unix_us=1)
    assert seqs(path) == [1]
    with store.database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
    store.commit(far=large, now_unix_us=1)
    assert seqs(path) == list(range(1, 12))


def test_a_file_damaged_under_a_running_worker_is_set_aside_and_the_store_goes_on_under_its_id(
    store: RecordStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.commit(far=[far(1)], now_unix_us=1)
    store.database.close()
    overwrite(path)
    with pytest.raises(Retryable, match="damaged"):
        store.commit(far=[far(2)], now_unix_us=1)
    store.commit(far=[far(2)], now_unix_us=1)
    assert seqs(path) == [2]
    assert (path.with_name("records.db.damaged-1")).stat().st_size > 0
    assert store.set_aside == 1
    assert "records.db.damaged-1" in caplog.text
    with open_store(f"sqlite:///{path}") as again:
        assert again.store_id == store.store_id


def test_a_file_damaged_before_the_start_makes_room_for_a_new_store(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(f"sqlite:///{path}") as first:
        first.commit(far=[far(1)], now_unix_us=1)
    overwrite(path)
    with caplog.at_level(logging.ERROR), open_store(f"sqlite:///{path}") as second:
        assert second.set_aside == 1
        assert second.identities() == []
        assert second.store_id != first.store_id
    assert "set aside as" in caplog.text
    assert "sqlite3" in caplog.text
    overwrite(path)
    with open_store(f"sqlite:///{path}") as third:
        assert third.set_aside == 1
    assert {p.name for p in path.parent.glob("*.damaged-*")} == {
        "records.db.damaged-1",
        "records.db.damaged-2",
    }


def test_a_reader_never_moves_a_damaged_file(path: Path) -> None:
    open_store(f"sqlite:///{path}").close()
    overwrite(path)
    with pytest.raises(Exception, match="is damaged"):
        open_store(f"sqlite:///{path}", read_only=True)
    assert path.exists()
    assert not list(path.parent.glob("*.damaged-*"))


def test_nothing_written_to_a_file_that_was_moved_away_counts_as_stored(
    store: RecordStore, path: Path
) -> None:
    store.commit(far=[far(1)], now_unix_us=1)
    path.rename(path.with_name("elsewhere.db"))
    store.commit(far=[far(2)], now_unix_us=1)
    assert seqs(path) == [2]

    def lose_the_file_in_the_middle() -> None:
        with store.writing() as connection:
            store.upserts.meta.run(connection, [{"key": "x", "value": "y"}])
            path.unlink()

    with pytest.raises(Retryable, match="moved or removed"):
        lose_the_file_in_the_middle()
    store.commit(far=[far(3)], now_unix_us=1)
    assert seqs(path) == [3]


def test_two_workers_on_a_file_that_one_of_them_set_aside_meet_again_on_the_new_one(
    store: RecordStore, path: Path
) -> None:
    with open_store(f"sqlite:///{path}") as other:
        other.commit(far=[far(1)], now_unix_us=1)
        assert store.database.set_aside()
        store.commit(far=[far(2)], now_unix_us=1)
        other.commit(far=[far(3)], now_unix_us=1)
        assert other.set_aside == 0
    assert seqs(path) == [2, 3]


def test_another_store_put_in_the_place_of_this_one_gets_nothing(
    store: RecordStore, path: Path, tmp_path: Path
) -> None:
    open_store(f"sqlite:///{tmp_path}/other.db").close()
    store.close()
    (tmp_path / "other.db").rename(path)
    with pytest.raises(Retryable, match="is now another record store"):
        store.commit(far=[far(1)], now_unix_us=1)
    assert seqs(path) == []


def test_a_store_of_format_1_is_brought_up_to_date_and_keeps_what_it_has(path: Path) -> None:
    gap = Gap(run=RUN, stream="door", first=5, last=9, reason=GapReason.SHED, detail="overload")
    with open_store(f"sqlite:///{path}") as made:
        made.commit(far=[far(1)], gaps=[("gw", gap)], now_unix_us=1)
        store_id = made.store_id
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DROP INDEX gaps_by_received")
        connection.execute("ALTER TABLE gaps DROP COLUMN received_unix_us")
        connection.execute("DROP TABLE payloads")
        connection.execute("DROP TABLE blobs")
        connection.execute("UPDATE meta SET value='1' WHERE key='format'")
    connection.close()
    with pytest.raises(ConfigError, match="start its worker once with this version"):
        open_store(f"sqlite:///{path}", read_only=True)
    with open_store(f"sqlite:///{path}") as again:
        assert again.store_id == store_id
        assert [row.id.seq for row in again.rows()] == [1]
        assert again.gaps() == [("gw", gap)]
        again.commit(gaps=[("gw", gap)], now_unix_us=2)
    with open_store(f"sqlite:///{path}", read_only=True) as reader:
        assert reader.gaps() == [("gw", gap)]
        assert reader.gaps(Query(since_us=10**15)) == [("gw", gap)], "as if it had come with this version"


def test_a_store_of_format_2_learns_when_its_pictures_came(path: Path, tmp_path: Path) -> None:
    with open_store(f"sqlite:///{path}") as made:
        Payloads(made, PayloadFolder(tmp_path / "p"), max_bytes=1000).commit([picture(1)], now_unix_us=5)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DROP INDEX gaps_by_received")
        connection.execute("DROP INDEX payloads_by_received")
        connection.execute("ALTER TABLE payloads DROP COLUMN received_unix_us")
        connection.execute("UPDATE meta SET value='2' WHERE key='format'")
    with open_store(f"sqlite:///{path}") as again:
        again.commit(far=[far(1)], now_unix_us=2)
        assert [row.payload is not None for row in again.rows()] == [True]
    (came_unix_us,) = connection.execute("SELECT received_unix_us FROM payloads").fetchone()
    indexes = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='index'")}
    connection.close()
    assert came_unix_us > 10**15
    assert {"gaps_by_received", "payloads_by_received"} <= indexes


def test_a_file_with_a_table_of_the_same_name_but_another_program_is_no_record_store(path: Path) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE meta (id INTEGER, title TEXT)")
    connection.close()
    for read_only in (True, False):
        with pytest.raises(ConfigError, match="is no record store; give the URL of one"):
            open_store(f"sqlite:///{path}", read_only=read_only)


@pytest.mark.parametrize("how", ["damaged", "removed"])
def test_a_store_made_anew_under_a_running_worker_keeps_every_picture_and_says_where_they_are(
    store: RecordStore, path: Path, tmp_path: Path, how: str
) -> None:
    payloads = Payloads(store, PayloadFolder(tmp_path / "p"), max_bytes=1000)
    store.note_payloads(tmp_path / "p")
    payloads.commit([picture(1)], now_unix_us=1)
    store.database.close()
    if how == "damaged":
        overwrite(path)
        with pytest.raises(Retryable, match="damaged"):
            payloads.commit([picture(2)], now_unix_us=1)
    else:
        path.unlink()
    payloads.commit([picture(2)], now_unix_us=1)
    made_s = time.time()
    for shard in SHARDS:
        payloads.tidy(shard, now_unix_s=made_s + 10 * 3600)
    assert payloads.folder.read(content_hash(b"picture 1")) == b"picture 1"
    with open_store(f"sqlite:///{path}", read_only=True) as reader:
        assert reader.payloads_path == str(tmp_path / "p")
    later = payloads.folder.put(b"a leftover of the new store")
    os.utime(payloads.folder.path(later), (made_s + 60, made_s + 60))
    payloads.tidy(later[:2], now_unix_s=made_s + 10 * 3600)
    assert payloads.counts.leftover == 1


def test_a_database_damaged_under_the_writer_of_pictures_costs_no_picture(
    store: RecordStore, path: Path, tmp_path: Path
) -> None:
    payloads = Payloads(store, PayloadFolder(tmp_path / "p"), max_bytes=1000)
    acked: list[object] = []
    writer = PayloadWriter(
        payloads, acknowledge=lambda arrivals: acked.extend(a.to for a in arrivals), unix_us=lambda: 1
    )
    payloads.commit([picture(1)], now_unix_us=1)
    store.database.close()
    overwrite(path)
    writer.submit(picture(2), "agent")
    writer.start()
    assert writer.flush(5_000_000)
    writer.halt()
    writer.thread.join(5.0)
    assert acked == ["agent"]
    assert (writer.refused, writer.dropped) == (0, 0)
    assert payloads.holds([content_hash(b"picture 2")])


def picture(seq: int) -> Payload:
    encoding = Encoding(codec="jpeg", quality=50, width_px=4, height_px=4)
    return Payload(id=FrameId("gw", RUN, "door", seq), encoding=encoding, data=b"picture %d" % seq)
