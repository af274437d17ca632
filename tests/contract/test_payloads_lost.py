"""What the payload store promises when files are gone or damaged: nobody is told that a lost picture is kept, and a
picture that comes again heals the store."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cloud.store.payloads.folder import PayloadFolder, content_hash
from cloud.store.payloads.offers import Offer
from cloud.store.payloads.ref import PayloadRef
from cloud.store.payloads.store import Payload, Payloads
from cloud.store.records import RecordStore, open_store
from pipelines.errors import Rejected, Retryable
from pipelines.frame import Encoding, FrameId
from tests.support.stores import NewUrl

PICTURE = b"a picture of some bytes"
SHA256 = content_hash(PICTURE)


@pytest.fixture
def store(new_url: NewUrl) -> Iterator[RecordStore]:
    with open_store(new_url()) as opened:
        yield opened


@pytest.fixture
def payloads(store: RecordStore, tmp_path: Path) -> Payloads:
    return Payloads(store, PayloadFolder(tmp_path / "payloads"), max_bytes=1000)


def payload(seq: int, data: bytes = PICTURE) -> Payload:
    encoding = Encoding(codec="jpeg", quality=50, width_px=320, height_px=240, body_bytes=len(data))
    return Payload(id=FrameId("gw", bytes(range(16)), "door", seq), encoding=encoding, data=data)


def offer(seq: int, data: bytes = PICTURE) -> Offer:
    made = payload(seq, data)
    return made.id, PayloadRef(sha256=content_hash(data), encoding=made.encoding, source_size=(0, 0))


def picture_of(payloads: Payloads, seq: int) -> bytes:
    (ref,) = payloads.refs([payload(seq).id])
    return payloads.read(ref.sha256)


def gone(payloads: Payloads) -> None:
    payloads.folder.path(SHA256).unlink()


def gone_and_tidied(payloads: Payloads) -> None:
    gone(payloads)
    payloads.tidy(SHA256[:2], now_unix_s=0)


def shard_gone(payloads: Payloads) -> None:
    shutil.rmtree(payloads.folder.path(SHA256).parent)


def cut_short(payloads: Payloads) -> None:
    payloads.folder.path(SHA256).write_bytes(PICTURE[:7])


def grown(payloads: Payloads) -> None:
    payloads.folder.path(SHA256).write_bytes(PICTURE + b"x")


def read_and_found_damaged(payloads: Payloads) -> None:
    payloads.folder.path(SHA256).write_bytes(b"?" * len(PICTURE))
    with pytest.raises(Rejected, match="damaged"):
        payloads.read(SHA256)


@pytest.mark.parametrize(
    "harm", [gone, gone_and_tidied, shard_gone, cut_short, grown, read_and_found_damaged]
)
def test_a_lost_picture_is_wanted_again_and_what_comes_heals_it(
    payloads: Payloads, harm: Callable[[Payloads], None]
) -> None:
    payloads.commit([payload(1)], now_unix_us=1)
    harm(payloads)
    offers = [offer(1), offer(2)]  # the frame that has it, and another with the same content
    assert payloads.settle(offers) == [0, 1]
    assert payloads.settle(offers) == [0, 1], "asking is not having"
    payloads.commit([payload(1)], now_unix_us=2)
    assert payloads.settle(offers) == []
    assert picture_of(payloads, 1) == picture_of(payloads, 2) == PICTURE
    assert payloads.used_bytes == len(PICTURE) == payloads.count_used()


def test_while_the_folder_is_not_there_nothing_is_settled(payloads: Payloads) -> None:
    payloads.commit([payload(1)], now_unix_us=1)
    away = payloads.folder.root.rename(payloads.folder.root.with_name("unmounted"))
    with pytest.raises(Retryable, match="is its file system mounted"):
        payloads.settle([offer(1)])
    away.rename(payloads.folder.root)
    assert payloads.settle([offer(1)]) == []


def test_a_file_of_the_wrong_size_is_counted_once_as_damaged(payloads: Payloads) -> None:
    payloads.commit([payload(1)], now_unix_us=1)
    cut_short(payloads)
    for _ in range(3):
        payloads.settle([offer(1)])
    assert payloads.counts.damaged == 1


@pytest.mark.parametrize("held", [False, True])
def test_a_smaller_picture_takes_the_place_of_a_larger_one_that_is_lost(
    payloads: Payloads, held: bool
) -> None:
    payloads.commit([payload(1)], now_unix_us=1)
    cut_short(payloads)
    if held:
        payloads.commit([payload(2, b"smaller")], now_unix_us=2)
    else:
        assert payloads.settle([offer(1, b"smaller")]) == [0]
        payloads.commit([payload(1, b"smaller")], now_unix_us=2)
    assert payloads.settle([offer(1, b"smaller")]) == []
    assert picture_of(payloads, 1) == b"smaller"
    assert payloads.used_bytes == 7 == payloads.count_used()


def test_a_picture_that_was_evicted_is_wanted_again_only_where_there_is_room(
    store: RecordStore, payloads: Payloads
) -> None:
    payloads.commit([payload(1)], now_unix_us=1)
    payloads.commit([payload(2, b"x" * 990)], now_unix_us=2)
    assert payloads.settle([offer(1)]) == []
    larger = Payloads(store, payloads.folder, max_bytes=2000)
    assert larger.settle([offer(1)]) == [0]


def test_a_sound_file_is_not_written_again_and_a_damaged_one_is(tmp_path: Path) -> None:
    folder = PayloadFolder(tmp_path / "payloads")
    folder.make()
    path = folder.path(folder.put(PICTURE))
    first = path.stat().st_ino
    folder.put(PICTURE)
    assert path.stat().st_ino == first
    for damaged in (b"?" * len(PICTURE), PICTURE[:7], b""):
        path.write_bytes(damaged)
        folder.put(PICTURE)
        assert folder.read(SHA256) == PICTURE
