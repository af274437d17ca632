"""Several workers on one payload folder, on every database: whatever they do to each other, what was acknowledged stays."""

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest

from cloud.store.payloads import contents, references
from cloud.store.payloads.folder import PayloadFolder, content_hash
from cloud.store.payloads.store import Payload, Payloads
from cloud.store.records import RecordStore, open_store
from pipelines.frame import Encoding, FrameId
from tests.support.stores import NewUrl

RUN = bytes(range(16))
MAX_BYTES = 1000
HOUR_S = 3600.0
PICTURE = b"one picture"
SHA256 = content_hash(PICTURE)


@pytest.fixture
def stores(new_url: NewUrl) -> Iterator[tuple[RecordStore, RecordStore]]:
    url = new_url()
    with open_store(url) as one, open_store(url) as other:
        yield one, other


@pytest.fixture
def workers(stores: tuple[RecordStore, RecordStore], tmp_path: Path) -> tuple[Payloads, Payloads]:
    one, other = (
        Payloads(store, PayloadFolder(tmp_path / "payloads"), max_bytes=MAX_BYTES) for store in stores
    )
    return one, other


def payload(seq: int, data: bytes = PICTURE) -> Payload:
    encoding = Encoding(codec="jpeg", quality=50, width_px=320, height_px=240)
    return Payload(id=FrameId("gw", RUN, "door", seq), encoding=encoding, data=data)


def key(seq: int) -> dict[str, object]:
    return {"agent": "gw", "run": RUN.hex(), "stream": "door", "seq": seq}


def test_a_picture_that_another_worker_commits_during_a_tidying_is_not_forgotten(
    workers: tuple[Payloads, Payloads], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = workers
    listed = one.folder.shard

    def meanwhile(shard: str) -> dict[str, float]:
        before = listed(shard)
        other.commit([payload(1)], now_unix_us=1)
        return before

    monkeypatch.setattr(one.folder, "shard", meanwhile)
    one.tidy(SHA256[:2], now_unix_s=0)
    assert one.holds([SHA256]) == {SHA256}
    assert one.counts.missing == 0


def test_a_leftover_that_another_worker_puts_again_during_a_tidying_is_not_removed(
    workers: tuple[Payloads, Payloads], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = workers
    one.folder.put(PICTURE)
    os.utime(one.folder.path(SHA256), (HOUR_S, HOUR_S))
    listed = one.folder.shard

    def meanwhile(shard: str) -> dict[str, float]:
        before = listed(shard)
        other.commit([payload(1)], now_unix_us=1)
        os.utime(one.folder.path(SHA256), (HOUR_S, HOUR_S))  # its row alone must save it
        return before

    monkeypatch.setattr(one.folder, "shard", meanwhile)
    one.tidy(SHA256[:2], now_unix_s=3 * HOUR_S)
    assert one.read(SHA256) == PICTURE
    assert one.counts.leftover == 0


def test_a_content_evicted_while_it_is_put_again_is_there_when_it_is_acknowledged(
    workers: tuple[Payloads, Payloads], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = workers
    one.commit([payload(1)], now_unix_us=1)
    put = other.folder.put
    evicted: list[int] = []

    def meanwhile(data: bytes) -> str:
        sha256 = put(data)
        if not evicted:
            one.max_bytes = 1
            one.trim()
            evicted.append(one.counts.evicted)
        return sha256

    monkeypatch.setattr(other.folder, "put", meanwhile)
    other.commit([payload(2)], now_unix_us=2)
    assert evicted == [1]
    assert other.read(SHA256) == PICTURE
    assert other.holds([SHA256]) == {SHA256}


@pytest.mark.parametrize("how", ["commit", "settle"])
def test_a_picture_referred_to_in_a_transaction_under_way_outlives_its_last_older_frame(
    workers: tuple[Payloads, Payloads], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    one, other = workers
    one.commit([payload(1)], now_unix_us=1)
    ((ref),) = one.refs([payload(1).id])
    put = references.put
    under_way, forgotten = Event(), Event()

    def slowly(*arguments: object) -> None:
        put(*arguments)  # type: ignore[arg-type]
        under_way.set()
        forgotten.wait(0.5)  # the other one goes first, unless it is made to wait

    def forget() -> None:
        assert under_way.wait(5)
        one.forget([(key(1), SHA256)])
        forgotten.set()

    monkeypatch.setattr(references, "put", slowly)
    thread = Thread(target=forget)
    thread.start()
    if how == "commit":
        other.commit([payload(2)], now_unix_us=2)
    else:
        assert other.settle([(payload(2).id, ref)]) == []
    thread.join(10)
    assert forgotten.is_set()
    assert other.holds([SHA256]) == {SHA256}
    assert other.read(SHA256) == PICTURE


def test_what_two_workers_evict_at_once_is_counted_once(workers: tuple[Payloads, Payloads]) -> None:
    one, other = workers
    for seq in range(40):
        one.commit([payload(seq, seq.to_bytes(4) * 5)], now_unix_us=seq)
    one.max_bytes = other.max_bytes = 100
    together = Barrier(2)

    def trim(worker: Payloads) -> None:
        together.wait(5)
        while worker.trim():
            pass

    threads = [Thread(target=trim, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    left = one.count_used()
    assert left <= 100
    assert one.counts.evicted + other.counts.evicted == 40 - left // 20


def test_a_content_another_worker_has_dropped_is_not_dropped_again(
    workers: tuple[Payloads, Payloads], stores: tuple[RecordStore, RecordStore]
) -> None:
    one, _ = workers
    one.commit([payload(1)], now_unix_us=1)
    found = []
    for store in stores:
        with store.writing() as connection:
            found.append(contents.drop(connection, one.folder, [SHA256]))
    assert found == [{SHA256: len(PICTURE)}, {}]


def test_pictures_that_need_the_same_rows_in_another_order_all_arrive(
    workers: tuple[Payloads, Payloads],
) -> None:
    pictures = [payload(seq, seq.to_bytes(4)) for seq in range(12)]
    together = Barrier(2)
    failed: list[BaseException] = []

    def work(worker: Payloads, order: list[Payload]) -> None:
        try:
            together.wait(5)
            for now_us in range(8):
                worker.commit(order, now_unix_us=now_us)
                worker.forget([(key(p.id.seq), content_hash(p.data)) for p in order[::2]])
        except BaseException as error:
            failed.append(error)

    threads = [
        Thread(target=work, args=(worker, order))
        for worker, order in zip(workers, (pictures, pictures[::-1]), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failed == []
    one, _ = workers
    one.commit(pictures, now_unix_us=100)
    assert all(one.read(content_hash(p.data)) == p.data for p in pictures)
    assert one.count_used() == 48
