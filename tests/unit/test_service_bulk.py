"""The bulk lane of a worker: stored whole or not at all, acked after the commit."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Gap, GapReason, Record, Status
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
    assert rig.store.identities() == {FrameId("gw", RUN, "door", seq) for seq in (1, 2, 4)}
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
        (batch(5, 2**63), "no sequence number"),
        (replace(batch(5), chunks=(Chunk(index=0, offset_bytes=0, data=b"x"),)), "keeps no payloads"),
    ],
)
def test_a_batch_that_is_not_sound_is_refused_whole_and_never_acked(
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
    assert {i.seq for i in rig.store.identities()} == {7}


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
    assert rig.errors() == [RejectReason.UNKNOWN_KIND] * 2
