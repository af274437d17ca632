"""The bulk lane of a worker: all that can be stored is, and the batch is acked after the commit."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Detections, Gap, GapReason, Record, Status
from protos.wire.bulk import Ack, BulkBatch, Chunk, Have
from protos.wire.live import FrameHead, Reject
from protos.wire.records import pack
from protos.wire.session import (
    Error,
    Lane,
    RejectReason,
)
from tests.support.eventually import eventually
from tests.support.rigs import ENCODING, HELLO, RUN, Rig, rig_in
from tests.support.workers import clock_us


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with rig_in(tmp_path) as made:
        yield made


def batch(number: int, *seqs: int) -> BulkBatch:
    records = [
        Record(id=FrameId("ignored", RUN, "door", seq), answered_by=AnsweredBy.NEAR, status=Status.OK)
        for seq in seqs
    ]
    data, size_bytes = pack(records)
    gap = Gap(run=RUN, stream="door", first=50, last=60, reason=GapReason.SHED, detail="overload")
    return BulkBatch(batch=number, records_zstd=data, records_bytes=size_bytes, gaps=(gap,))


def test_a_batch_is_stored_under_the_name_of_the_hello_and_acked_after_the_commit(rig: Rig) -> None:
    peer, session = rig.connect(replace(HELLO, lane=Lane.BULK))
    session.receive(batch(3, 1, 2, 4), clock_us())
    (ack,) = peer.wait(Ack)
    assert ack.batches == (3,)
    assert [(r.first, r.last) for r in ack.records] == [(1, 2), (4, 4)]
    assert rig.store.identities() == [FrameId("gw", RUN, "door", seq) for seq in (1, 2, 4)]
    assert [(agent, g.last) for agent, g in rig.store.gaps()] == [("gw", 60)]


def test_a_repeated_batch_is_acked_again_and_stored_once(rig: Rig) -> None:
    peer, session = rig.connect(replace(HELLO, lane=Lane.BULK))
    for _ in range(2):
        session.receive(batch(3, 1), clock_us())
    eventually(lambda: sum(len(a.batches) for a in peer.all(Ack)) == 2, what="two acks")
    assert rig.store.counts()["records"] == 1


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (replace(batch(5, 1), records_zstd=b"nonsense"), "damaged"),
        (replace(batch(5, 1), records_bytes=1 << 30), "exceeds the limit"),
        (replace(batch(5, 1), records_bytes=3), "and does not"),
        (replace(batch(5), chunks=(Chunk(index=0, offset_bytes=0, data=b"x"),)), "keeps no payloads"),
    ],
)
def test_a_batch_that_cannot_be_opened_is_refused_in_words_counted_and_never_acked(
    rig: Rig, bad: BulkBatch, words: str
) -> None:
    peer, session = rig.connect(replace(HELLO, lane=Lane.BULK))
    session.receive(bad, clock_us())
    (error,) = peer.wait(Error)
    assert error.reason is RejectReason.BAD_PAYLOAD
    assert words in error.text
    session.receive(batch(6, 7), clock_us())
    (ack,) = peer.wait(Ack)
    assert ack.batches == (6,)
    assert [i.seq for i in rig.store.identities()] == [7]
    assert rig.service.metrics.value("nearfar_worker_bulk_batches_total", outcome="refused") == 1


SOUND = Record(id=FrameId("ignored", RUN, "door", 1), answered_by=AnsweredBy.NEAR, status=Status.OK)
ODD_COLUMNS = Detections.empty()
object.__setattr__(ODD_COLUMNS, "scores", np.zeros(3, np.float32))
GAP = Gap(run=RUN, stream="door", first=50, last=60, reason=GapReason.SHED)


@pytest.mark.parametrize(
    ("never", "gaps"),
    [
        ((replace(SOUND, id=replace(SOUND.id, seq=2**63)),), ()),
        ((replace(SOUND, id=replace(SOUND.id, seq=0)),), ()),
        ((replace(SOUND, id=replace(SOUND.id, run=b"short")),), ()),
        ((replace(SOUND, detections=ODD_COLUMNS),), ()),
        ((), (replace(GAP, first=9, last=8),)),
    ],
    ids=["seq too large", "no seq", "no run", "columns that disagree", "a gap that ends before it starts"],
)
def test_a_batch_with_a_row_that_can_never_be_stored_is_acked_the_rest_stored_and_the_row_counted(
    rig: Rig, never: tuple[Record, ...], gaps: tuple[Gap, ...]
) -> None:
    peer, session = rig.connect(replace(HELLO, lane=Lane.BULK))
    good = [replace(SOUND, id=replace(SOUND.id, seq=seq)) for seq in (1, 2, 4)]
    data, size_bytes = pack([good[0], *never, *good[1:]])
    session.receive(
        BulkBatch(batch=8, records_zstd=data, records_bytes=size_bytes, gaps=(*gaps, GAP)), clock_us()
    )
    (ack,) = peer.wait(Ack)
    assert ack.batches == (8,)
    assert [(r.first, r.last) for r in ack.records] == [(1, 2), (4, 4)]
    assert [i.seq for i in rig.store.identities()] == [1, 2, 4]
    assert rig.store.gaps() == [("gw", GAP)]
    assert peer.all(Error) == []
    assert rig.service.metrics.value("nearfar_worker_records_set_aside_total") == 1


def test_a_batch_of_nothing_but_rows_that_can_never_be_stored_is_acked_too(rig: Rig) -> None:
    peer, session = rig.connect(replace(HELLO, lane=Lane.BULK))
    data, size_bytes = pack([replace(SOUND, id=replace(SOUND.id, seq=0))])
    session.receive(BulkBatch(batch=8, records_zstd=data, records_bytes=size_bytes), clock_us())
    assert peer.wait(Ack)[0].batches == (8,)
    assert rig.store.identities() == []
    assert rig.service.metrics.value("nearfar_worker_records_set_aside_total") == 1


def test_each_lane_carries_only_its_own(rig: Rig) -> None:
    rig.welcome()
    rig.session.receive(batch(1, 1), clock_us())
    assert rig.errors() == [RejectReason.NOT_ALLOWED]
    peer, session = rig.connect(replace(HELLO, lane=Lane.BULK))
    session.receive(
        FrameHead(stream=0, seq=1, worker_budget_us=10**6, sent_mono_us=0, encoding=ENCODING), clock_us()
    )
    assert peer.only(Reject).reason is RejectReason.NOT_ALLOWED


def test_what_this_worker_does_not_serve_is_answered_with_words(rig: Rig) -> None:
    rig.welcome()
    rig.session.receive(Have(payloads=()), clock_us())
    rig.session.refuse("no such kind")
    assert rig.errors() == [RejectReason.NOT_ALLOWED, RejectReason.UNKNOWN_KIND]


def test_a_batch_the_record_store_has_no_room_for_is_answered_like_one_the_intake_has_no_room_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, session = rig.connect(replace(HELLO, lane=Lane.BULK))
    with monkeypatch.context() as patched:
        patched.setattr(rig.service.writer, "submit", lambda _: False)
        session.receive(batch(5, 1, 2), clock_us())
        (error,) = peer.wait(Error)
    assert error.reason is RejectReason.QUEUE_FULL
    assert "batch 5 dropped" in error.text
    assert rig.service.metrics.value("nearfar_worker_bulk_batches_total", outcome="dropped") == 1
    session.receive(batch(5, 1, 2), clock_us())
    assert peer.wait(Ack)[0].batches == (5,)
