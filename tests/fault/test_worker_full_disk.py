"""A worker that starts while its disk is full: it answers, keeps nothing it cannot keep, says so, and goes on by itself."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from cloud.agents.session import WorkerSession
from cloud.config import WorkerConfig
from cloud.service import Service
from cloud.store.records import open_store
from cloud.store.sql import preparation
from cloud.store.sql.database import DiskFullError
from cloud.worker import Worker
from pipelines.codecs.jpeg import JpegCodec
from protos.wire import records as wire_records
from protos.wire.bulk import Ack, BulkBatch
from protos.wire.live import FrameBody, FrameHead, Result
from protos.wire.session import Error, Lane, RejectReason, Welcome
from tests.support.eventually import eventually
from tests.support.outboxes import record
from tests.support.peers import FakePeer
from tests.support.rigs import HELLO
from tests.support.workers import clock_us

Disk = Callable[[int], None]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Say how many pages every file may have from now on; 0: as many as it likes."""
    made: list[tuple[Engine, Any]] = []
    build = create_engine
    most = 0

    def bounded(*args: Any, **options: Any) -> Engine:
        engine = build(*args, **options)

        def bound(connection: Any, _: object) -> None:
            connection.execute(f"PRAGMA max_page_count={most or 1 << 30}")

        event.listen(engine, "connect", bound)
        made.append((engine, bound))
        return engine

    def give(pages: int) -> None:
        nonlocal most
        most = pages
        for engine, _ in made:
            engine.dispose()

    monkeypatch.setattr("cloud.store.sql.sqlite.create_engine", bounded)
    return give


class NoDoor:
    """A listener that nobody can come in by."""

    address = "nowhere"
    refused_messages = faults = 0

    def __init__(self) -> None:
        self.trouble: list[str] = []
        self.left_behind: list[str] = []

    def start(self) -> None:
        """Nothing to bind."""

    def halt(self) -> None:
        """Nothing to stop."""

    def stop(self, within_s: float = 1.0) -> None:
        """Nothing to end."""


class House:
    """A worker with its store in `folder`, and agents on it."""

    def __init__(self, folder: Path, **store: Any) -> None:
        self._services: list[Service] = []
        config = WorkerConfig.model_validate(
            {
                "version": 1,
                "listen": {"zmq": {"address": "127.0.0.1:0"}},
                "models": {"near": {"detector": {"kind": "synthetic"}}},
                "store": {"url": f"sqlite:///{folder}/records.db", **store},
            }
        )
        self.worker = Worker(config, door=self._door)
        self.worker.start()

    def _door(self, service: Service) -> NoDoor:
        self._services.append(service)
        return NoDoor()

    def session(self, lane: Lane) -> tuple[FakePeer, WorkerSession]:
        peer = FakePeer()
        session = self._services[0].open(peer)
        session.receive(replace(HELLO, lane=lane), clock_us())
        return peer, session

    def answered_live(self) -> None:
        """A frame comes back with its result."""
        peer, session = self.session(Lane.LIVE)
        picture = np.zeros((240, 320, 3), np.uint8)
        data, encoding = JpegCodec().encode(picture, quality=50, size=(320, 240))
        head = FrameHead(stream=0, seq=1, worker_budget_us=5_000_000, sent_mono_us=0, encoding=encoding)
        session.receive(head, clock_us())
        session.receive(FrameBody(stream=0, seq=1, data=data), clock_us())
        peer.wait(Result)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    made: list[House] = []

    def build(**store: Any) -> House:
        made.append(House(tmp_path, **store))
        return made[-1]

    yield build
    for one in made:
        one.worker.drain(1_000_000)


def batch(number: int, *seqs: int) -> BulkBatch:
    packed, size = wire_records.pack([record(seq) for seq in seqs])
    return BulkBatch(batch=number, records_zstd=packed, records_bytes=size)


def full_error() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def full(worker: Worker) -> bool:
    return any("disk is full" in words for words in worker.not_ready())


def test_a_worker_starts_on_a_full_disk_answers_frames_and_refuses_records_with_the_reason(
    house: Callable[..., House], disk: Disk
) -> None:
    disk(1)
    made = house()
    eventually(lambda: full(made.worker), what="words on /readyz")
    made.answered_live()
    peer, session = made.session(Lane.BULK)
    session.receive(batch(1, 1, 2), clock_us())
    (error,) = peer.wait(Error)
    assert (error.reason, error.batch) == (RejectReason.QUEUE_FULL, 1)
    assert "disk is full" in error.text
    assert peer.all(Ack) == []


def test_it_takes_records_by_itself_once_there_is_room_under_the_id_it_was_known_by(
    house: Callable[..., House], disk: Disk, tmp_path: Path
) -> None:
    disk(1)
    made = house()
    eventually(lambda: full(made.worker), what="words on /readyz")
    peer, session = made.session(Lane.BULK)
    known = peer.only(Welcome).store_id
    disk(0)
    eventually(lambda: made.worker.not_ready() == [], what="it to write")
    session.receive(batch(2, 1, 2), clock_us())
    (ack,) = peer.wait(Ack)
    assert ack.batches == (2,)
    made.worker.drain(1_000_000)
    with open_store(f"sqlite:///{tmp_path}/records.db", read_only=True) as store:
        assert store.store_id == known
        assert sorted(identity.seq for identity in store.identities()) == [1, 2]


def no_room(*_: Any, **__: Any) -> None:
    raise OperationalError("upsert", {}, full_error())


def test_a_store_that_is_there_keeps_its_id_through_a_start_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    with open_store(url) as store:
        known = store.store_id
    with monkeypatch.context() as full:
        full.setattr(preparation, "prepare", no_room)
        store = open_store(url)
        assert (store.store_id, "full" in store.trouble) == (known, True)
        with pytest.raises(DiskFullError):
            store.commit(given=[record(1)], now_unix_us=1)
    store.commit(given=[record(1)], now_unix_us=1)
    assert (store.store_id, store.trouble) == (known, "")
    store.close()


def test_a_store_that_cannot_be_made_yet_has_one_id_however_often_its_workers_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    with monkeypatch.context() as full:
        full.setattr(preparation, "prepare", no_room)
        first, second, other = (
            open_store(f"sqlite:///{tmp_path}/{name}") for name in ("r.db", "r.db", "other/r.db")
        )
    assert first.store_id == second.store_id != other.store_id
    for seq, store in enumerate((first, second), start=1):
        store.commit(given=[record(seq)], now_unix_us=1)
    assert [identity.seq for identity in first.identities()] == [1, 2]
    for store in (first, second, other):
        store.close()


def test_the_id_of_a_store_whose_worker_was_killed_is_found_in_the_log_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "killed").mkdir()
    with open_store(f"sqlite:///{tmp_path}/records.db") as store:
        known = store.store_id
        for name in ("records.db", "records.db-wal"):
            shutil.copy(tmp_path / name, tmp_path / "killed" / name)
    monkeypatch.setattr(preparation, "prepare", no_room)
    with open_store(f"sqlite:///{tmp_path}/killed/records.db") as store:
        assert store.store_id == known


def test_a_store_whose_id_cannot_be_read_for_want_of_room_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(f"sqlite:///{tmp_path}/records.db"):
        """There is a store now."""
    with closing(sqlite3.connect(tmp_path / "records.db")) as db:
        db.execute("DELETE FROM meta")
        db.commit()
    monkeypatch.setattr(preparation, "prepare", no_room)
    with pytest.raises(DiskFullError, match="full"):
        open_store(f"sqlite:///{tmp_path}/records.db")


def test_where_pictures_are_is_written_once_there_is_room(
    house: Callable[..., House], disk: Disk, tmp_path: Path
) -> None:
    disk(1)
    made = house(payloads={"path": str(tmp_path / "pictures")})
    eventually(lambda: full(made.worker), what="words on /readyz")
    disk(0)
    eventually(lambda: made.worker.not_ready() == [], what="it to write")
    with open_store(f"sqlite:///{tmp_path}/records.db", read_only=True) as store:
        assert store.payloads_path.startswith(str(tmp_path / "pictures"))
