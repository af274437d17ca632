"""What the payload store promises, on every database: content once, a quota, and never a wrong picture."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.store.payloads.folder import PayloadFolder, content_hash
from cloud.store.payloads.offers import Offer
from cloud.store.payloads.ref import PayloadRef
from cloud.store.payloads.store import Payload, Payloads
from cloud.store.records import RecordStore, open_store
from cloud.store.retention import Retention
from pipelines.errors import Rejected
from pipelines.frame import Encoding, FrameId
from pipelines.result import AnsweredBy, Gap, GapReason, Priority, Record, Status
from tests.support.stores import NewUrl

RUN = bytes(range(16))
MAX_BYTES = 1000


@pytest.fixture
def store(new_url: NewUrl) -> Iterator[RecordStore]:
    with open_store(new_url()) as opened:
        yield opened


@pytest.fixture
def payloads(store: RecordStore, tmp_path: Path) -> Payloads:
    return Payloads(store, PayloadFolder(tmp_path / "payloads"), max_bytes=MAX_BYTES)


def payload(seq: int, data: bytes, *, priority: Priority = Priority.NORMAL, hard: bool = False) -> Payload:
    encoding = Encoding(codec="jpeg", quality=50, width_px=320, height_px=240, body_bytes=len(data))
    return Payload(
        id=FrameId("gw", RUN, "door", seq),
        encoding=encoding,
        data=data,
        source_size=(640, 480),
        priority=priority,
        hard=hard,
    )


def picture(seq: int, size_bytes: int = 100) -> bytes:
    return seq.to_bytes(4) * (size_bytes // 4)


def files(payloads: Payloads) -> set[str]:
    return {path.name for path in payloads.folder.root.rglob("*") if path.is_file()}


def record(store: RecordStore, *seqs: int, now_unix_us: int = 1) -> None:
    records = [
        Record(id=FrameId("gw", RUN, "door", seq), answered_by=AnsweredBy.NEAR, status=Status.OK)
        for seq in seqs
    ]
    store.commit(given=records, now_unix_us=now_unix_us)


def kept(store: RecordStore) -> dict[int, bool | None]:
    """Sequence number → whether its picture is kept; None: it never had one."""
    return {row.id.seq: None if row.payload is None else row.payload.kept for row in store.rows()}


def test_a_record_refers_to_its_picture_by_hash_codec_and_size(
    store: RecordStore, payloads: Payloads
) -> None:
    record(store, 1, 2)
    payloads.commit([payload(1, b"jpeg of 1")], now_unix_us=5)
    first, second = store.rows()
    assert first.payload is not None
    assert first.payload.encoding.codec == "jpeg"
    assert first.payload.source_size == (640, 480)
    assert first.as_dict()["payload"] == {
        "sha256": content_hash(b"jpeg of 1"),
        "codec": "jpeg",
        "bytes": 9,
        "width_px": 320,
        "height_px": 240,
        "kept": True,
    }
    assert payloads.read(first.payload.sha256) == b"jpeg of 1"
    assert second.payload is None
    assert second.as_dict()["payload"] is None


def test_a_picture_may_come_before_its_record(store: RecordStore, payloads: Payloads) -> None:
    payloads.commit([payload(1, b"x")], now_unix_us=5)
    assert kept(store) == {}
    record(store, 1)
    assert kept(store) == {1: True}


def test_the_same_content_is_stored_once_however_often_it_comes(
    store: RecordStore, payloads: Payloads
) -> None:
    for _ in range(2):
        payloads.commit([payload(1, picture(1)), payload(2, picture(1))], now_unix_us=5)
    payloads.commit([payload(3, picture(1))], now_unix_us=6)
    record(store, 1, 2, 3)
    assert kept(store) == {1: True, 2: True, 3: True}
    assert files(payloads) == {content_hash(picture(1))}
    assert payloads.used_bytes == 100 == payloads.count_used()
    assert payloads.counts.stored == 1


def offer(seq: int, data: bytes) -> Offer:
    made = payload(seq, data)
    ref = PayloadRef(sha256=content_hash(data), encoding=made.encoding, source_size=made.source_size)
    return made.id, ref


def test_only_what_the_store_lacks_is_wanted_and_the_rest_is_settled_at_once(
    store: RecordStore, payloads: Payloads
) -> None:
    record(store, *range(1, 6))
    payloads.commit([payload(1, b"one"), payload(2, b"small")], now_unix_us=5)
    offers = [
        offer(1, b"one"),  # has come
        offer(2, b"larger than small"),  # a better picture of the frame
        offer(3, b"one"),  # another frame, the same content
        offer(4, b"four"),
        offer(5, picture(5, MAX_BYTES + 4)),  # never to be kept
    ]
    assert payloads.settle(offers) == [1, 3]
    assert kept(store) == {1: True, 2: True, 3: True, 4: None, 5: None}
    assert payloads.settle(offers[:1] + offers[2:3]) == []


def test_what_was_evicted_is_not_wanted_again(payloads: Payloads) -> None:
    for seq in range(1, 12):
        payloads.commit([payload(seq, picture(seq))], now_unix_us=seq)
    assert payloads.holds([content_hash(picture(1))]) == set()
    assert payloads.settle([offer(1, picture(1))]) == []


@pytest.mark.parametrize("order", [(b"small", b"a larger one"), (b"a larger one", b"small")])
def test_of_two_pictures_of_a_frame_the_larger_stays_whichever_came_first(
    store: RecordStore, payloads: Payloads, order: tuple[bytes, bytes]
) -> None:
    record(store, 1)
    for data in order:
        payloads.commit([payload(1, data)], now_unix_us=1)
    (row,) = store.rows()
    assert row.payload is not None
    assert payloads.read(row.payload.sha256) == b"a larger one"
    assert files(payloads) == {content_hash(b"a larger one")}
    assert payloads.used_bytes == 12 == payloads.count_used()
    payloads.commit([payload(2, data) for data in order], now_unix_us=1)
    assert payloads.used_bytes == 12 == payloads.count_used()


def test_beyond_the_quota_what_is_worth_least_goes_first_and_of_that_the_oldest(
    store: RecordStore, payloads: Payloads
) -> None:
    record(store, *range(1, 14))
    payloads.commit([payload(1, picture(1), priority=Priority.HIGH)], now_unix_us=1)
    payloads.commit([payload(2, picture(2), hard=True)], now_unix_us=2)
    for seq in range(3, 11):
        payloads.commit([payload(seq, picture(seq))], now_unix_us=seq)
    assert payloads.used_bytes == MAX_BYTES
    payloads.commit([payload(11, picture(11)), payload(12, picture(12))], now_unix_us=11)
    assert [seq for seq, is_kept in kept(store).items() if is_kept is False] == [3, 4]
    assert payloads.used_bytes == MAX_BYTES
    assert len(files(payloads)) == 10
    assert (payloads.counts.evicted, payloads.counts.evicted_bytes) == (2, 200)
    row = next(row for row in store.rows() if row.id.seq == 3)
    assert row.payload is not None
    assert row.payload.sha256 == content_hash(picture(3))
    with pytest.raises(Rejected, match="is missing"):
        payloads.read(row.payload.sha256)


def test_a_smaller_quota_is_reached_by_steps(store: RecordStore, payloads: Payloads) -> None:
    record(store, *range(1, 11))
    for seq in range(1, 11):
        payloads.commit([payload(seq, picture(seq))], now_unix_us=seq)
    smaller = Payloads(store, payloads.folder, max_bytes=250)
    while smaller.trim():
        pass
    assert [seq for seq, is_kept in kept(store).items() if is_kept] == [9, 10]
    assert smaller.used_bytes == 200


def test_a_picture_larger_than_the_quota_is_counted_and_evicts_nothing(
    store: RecordStore, payloads: Payloads
) -> None:
    record(store, 1, 2)
    payloads.commit([payload(1, picture(1))], now_unix_us=1)
    payloads.commit([payload(2, picture(2, MAX_BYTES + 4))], now_unix_us=1)
    assert kept(store) == {1: True, 2: None}
    assert payloads.counts.too_large == 1


def test_a_damaged_file_is_told_and_never_handed_out(payloads: Payloads) -> None:
    payloads.commit([payload(1, b"good")], now_unix_us=1)
    path = payloads.folder.path(content_hash(b"good"))
    path.write_bytes(b"evil")
    with pytest.raises(Rejected, match="damaged"):
        payloads.read(content_hash(b"good"))
    path.unlink()
    with pytest.raises(Rejected, match="missing"):
        payloads.read(content_hash(b"good"))
    assert (payloads.counts.damaged, payloads.counts.missing) == (1, 1)


def test_tidying_removes_what_no_row_knows_and_forgets_what_is_gone(
    store: RecordStore, payloads: Payloads
) -> None:
    record(store, 1, 2)
    payloads.commit([payload(1, b"stays"), payload(2, b"goes")], now_unix_us=1)
    leftover = payloads.folder.put(b"written by a worker that was killed before its row")
    payloads.folder.path(content_hash(b"goes")).unlink()
    (payloads.folder.root / "tmp" / "half").write_bytes(b"h")
    born_s = payloads.folder.path(leftover).stat().st_mtime
    for sha256 in (content_hash(b"stays"), content_hash(b"goes"), leftover):
        payloads.tidy(sha256[:2], now_unix_s=born_s + 60)
    assert leftover in files(payloads), "it may be about to get its row"
    payloads.tidy(leftover[:2], now_unix_s=born_s + 7200)
    assert files(payloads) == {content_hash(b"stays")}
    assert kept(store) == {1: True, 2: False}
    assert (payloads.counts.leftover, payloads.counts.missing) == (1, 1)


def test_old_records_go_with_their_pictures_and_gaps_and_young_ones_stay(
    store: RecordStore, payloads: Payloads
) -> None:
    for seq in (1, 2, 3, 4):
        record(store, seq, now_unix_us=100 * seq)
        payloads.commit([payload(seq, picture(min(seq, 3)))], now_unix_us=100 * seq)
    gap = Gap(run=RUN, stream="door", first=5, last=9, reason=GapReason.SHED)
    store.commit(gaps=[("gw", gap)], now_unix_us=100)
    store.commit(gaps=[("gw", replace(gap, first=8))], now_unix_us=400)
    retention = Retention(store, payloads)
    first = retention.prune(400, at_most=2)
    assert (first.records, first.gaps, first.more) == (2, 1, True)
    second = retention.prune(400, at_most=2)
    assert (second.records, second.more) == (1, False)
    assert kept(store) == {4: True}
    assert files(payloads) == {content_hash(picture(3))}, "frame 4 shares the picture of frame 3"
    assert [gap.first for _, gap in store.gaps()] == [8]
    assert retention.prune(400).records == 0
    assert Retention(store, None).prune(500).records == 1
    assert kept(store) == {}


def test_a_picture_whose_record_never_came_goes_when_it_is_old(
    store: RecordStore, payloads: Payloads
) -> None:
    payloads.commit([payload(1, picture(1))], now_unix_us=100)
    payloads.commit([payload(2, picture(2))], now_unix_us=500)
    record(store, 3, now_unix_us=500)
    payloads.commit([payload(3, picture(3))], now_unix_us=100)
    Retention(store, payloads).prune(400)
    assert files(payloads) == {content_hash(picture(2)), content_hash(picture(3))}
    assert payloads.refs([payload(1, b"").id]) == []


def test_the_size_of_a_content_is_what_is_held_not_what_somebody_says(
    store: RecordStore, payloads: Payloads
) -> None:
    record(store, 1, 2)
    payloads.commit([payload(1, b"larger than it"), payload(2, b"small")], now_unix_us=1)
    identity, _ = offer(1, b"")
    _, small = offer(2, b"small")
    boasting = replace(small, encoding=replace(small.encoding, body_bytes=900))
    assert payloads.settle([(identity, boasting)]) == []
    assert [payloads.read(ref.sha256) for ref in payloads.refs([identity])] == [b"larger than it"]
    third, _ = offer(3, b"")
    assert payloads.settle([(third, boasting)]) == []
    assert [ref.encoding.body_bytes for ref in payloads.refs([third])] == [5]
