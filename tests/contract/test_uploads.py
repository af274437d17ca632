"""Payloads on the bulk lane of a worker, over every record store: offered, sent in pieces, acked when they are kept."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cloud.agents.session import WorkerSession
from cloud.store.payloads.folder import PayloadFolder
from cloud.store.payloads.store import Payloads
from pipelines.frame import Encoding, FrameId
from pipelines.result import AnsweredBy, Priority, Record, Status
from protos.wire.bulk import Ack, BulkBatch, Chunk, Have, HavePayload, Need
from protos.wire.records import pack
from protos.wire.session import Error, Lane, RejectReason, Welcome
from tests.support.eventually import eventually
from tests.support.peers import FakePeer
from tests.support.rigs import HELLO, RUN, Rig, rig_in
from tests.support.stores import NewUrl
from tests.support.workers import clock_us

QUOTA_BYTES = 1 << 20
BULK = replace(HELLO, lane=Lane.BULK)
Start = Callable[[], Rig]


@pytest.fixture
def start(tmp_path: Path, new_url: NewUrl) -> Iterator[Start]:
    """A worker on the same store and folder as the one before, which is stopped."""
    url = new_url()
    with ExitStack() as running:

        def begin() -> Rig:
            running.close()
            return running.enter_context(rig_in(tmp_path, url=url, payload_bytes=QUOTA_BYTES))

        yield begin


@pytest.fixture
def rig(start: Start) -> Rig:
    return start()


class Uploader:
    """One bulk connection, and what it says."""

    def __init__(self, rig: Rig) -> None:
        self.peer, self.session = rig.connect(BULK)
        self.batches = 0
        self.haves = 0

    def have(self, *offers: HavePayload) -> Need:
        self.haves += 1
        self.session.receive(Have(payloads=offers, have=self.haves), clock_us())
        return self.need(self.haves)

    def need(self, have: int, count: int = 1) -> Need:
        """The newest answer to an offer, once there are `count`."""
        found = lambda: [n for n in self.peer.all(Need) if n.have == have]  # noqa: E731
        return eventually(lambda: found()[count - 1 :], what=f"answer {count} to offer {have}")[-1]

    def chunk(self, data: bytes, offset_bytes: int, *, index: int = 0, have: int = 0) -> None:
        self.batches += 1
        piece = Chunk(index=index, offset_bytes=offset_bytes, data=data, have=have or self.haves)
        self.session.receive(BulkBatch(batch=self.batches, chunks=(piece,)), clock_us())

    def wait_batch(self, number: int) -> None:
        eventually(lambda: number in self.acked_batches(), what=f"an ack of batch {number}")

    def acked_batches(self) -> list[int]:
        return [b for ack in self.peer.all(Ack) for b in ack.batches]

    def acked(self) -> list[int]:
        return [p.seq for ack in self.peer.all(Ack) for p in ack.payloads]

    def wait_acked(self, *seqs: int) -> None:
        eventually(
            lambda: set(seqs) <= set(self.acked()), what=f"acks of the payloads {seqs}; {self.peer.sent}"
        )


def content(seq: int, size: int = 1000) -> bytes:
    return (b"%06d" % seq * (size // 6 + 1))[:size]


def offer(seq: int, data: bytes | None = None, **changes: Any) -> HavePayload:
    data = content(seq) if data is None else data
    made = HavePayload(
        id=FrameId("gw", RUN, "door", seq),
        sha256=hashlib.sha256(data).digest(),
        size_bytes=len(data),
        encoding=Encoding(codec="raw", quality=90, width_px=64, height_px=48, body_bytes=len(data)),
        source_size=(640, 480),
        priority=Priority.HIGH,
        hard=True,
    )
    return replace(made, **changes)


def kept(rig: Rig, seq: int) -> bytes:
    store = payloads(rig)
    (ref,) = store.refs([FrameId("gw", RUN, "door", seq)])
    assert ref.kept
    assert ref.source_size == (640, 480)
    return store.read(ref.sha256)


def payloads(rig: Rig) -> Payloads:
    return Payloads(rig.store, PayloadFolder(Path(rig.store.payloads_path)), max_bytes=QUOTA_BYTES)


def test_a_worker_says_in_its_welcome_how_large_a_payload_may_be(rig: Rig) -> None:
    assert Uploader(rig).peer.only(Welcome).limits.payload_bytes == QUOTA_BYTES


def test_a_payload_sent_in_pieces_is_acked_when_it_is_kept(rig: Rig) -> None:
    up = Uploader(rig)
    need = up.have(offer(1))
    assert [(w.index, w.offset_bytes) for w in need.wants] == [(0, 0)]
    for at in range(0, 1000, 300):
        up.chunk(content(1)[at : at + 300], at)
    up.wait_acked(1)
    assert up.acked_batches() == [1, 2, 3, 4]
    assert kept(rig, 1) == content(1)


def test_what_is_here_already_is_acked_without_a_byte(rig: Rig) -> None:
    up = Uploader(rig)
    up.have(offer(1))
    up.chunk(content(1), 0)
    up.wait_acked(1)
    again = Uploader(rig)
    need = again.have(offer(1), offer(2, content(1)), offer(3))
    assert [w.index for w in need.wants] == [2]
    again.wait_acked(1, 2)
    assert kept(rig, 2) == content(1)


def test_an_upload_goes_on_where_it_was_after_its_connection_was_lost(rig: Rig) -> None:
    up = Uploader(rig)
    up.have(offer(1))
    up.chunk(content(1)[:400], 0)
    up.wait_batch(1)
    up.session.closed()
    again = Uploader(rig)
    assert [(w.index, w.offset_bytes) for w in again.have(offer(1)).wants] == [(0, 400)]
    again.chunk(content(1)[400:], 400)
    again.wait_acked(1)
    assert kept(rig, 1) == content(1)


def test_an_upload_goes_on_where_it_was_after_the_worker_was_restarted(start: Start) -> None:
    up = Uploader(start())
    up.have(offer(1))
    up.chunk(content(1)[:700], 0)
    up.wait_batch(1)
    rig = start()
    again = Uploader(rig)
    assert [(w.index, w.offset_bytes) for w in again.have(offer(1)).wants] == [(0, 700)]
    again.chunk(content(1)[700:], 700)
    again.wait_acked(1)
    assert kept(rig, 1) == content(1)


def test_pieces_that_come_twice_or_overlap_change_nothing(rig: Rig) -> None:
    up = Uploader(rig)
    up.have(offer(1))
    for at, size in ((0, 500), (0, 500), (300, 300), (100, 50), (600, 400)):
        up.chunk(content(1)[at : at + size], at)
    up.wait_acked(1)
    assert kept(rig, 1) == content(1)


def test_a_lost_piece_is_asked_for_again(rig: Rig) -> None:
    up = Uploader(rig)
    up.have(offer(1))
    up.chunk(content(1)[:300], 0)
    up.chunk(content(1)[600:], 600)
    (want,) = up.need(1, 2).wants
    assert (want.index, want.offset_bytes) == (0, 300)
    up.chunk(content(1)[300:], 300)
    up.wait_acked(1)
    assert kept(rig, 1) == content(1)


def test_a_payload_that_came_damaged_is_not_kept_and_comes_again_from_its_beginning(rig: Rig) -> None:
    up = Uploader(rig)
    up.have(offer(1))
    up.chunk(b"!" * 1000, 0)
    (want,) = up.need(1, 2).wants
    assert (want.index, want.offset_bytes) == (0, 0)
    assert payloads(rig).refs([FrameId("gw", RUN, "door", 1)]) == []
    up.chunk(content(1), 0)
    up.wait_acked(1)
    assert kept(rig, 1) == content(1)


def test_pieces_of_an_older_offer_are_passed_over(rig: Rig) -> None:
    up = Uploader(rig)
    up.have(offer(1))
    up.have(offer(2))
    up.chunk(content(1), 0, have=1)
    up.wait_batch(1)
    up.chunk(content(2), 0)
    up.wait_acked(2)
    assert up.acked() == [2]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sha256": b"short"}, "32 bytes"),
        ({"size_bytes": QUOTA_BYTES + 1}, "this worker takes 1 to 1048576"),
        ({"size_bytes": 0}, "takes 1 to"),
        ({"size_bytes": 999}, "its encoding says 1000"),
        ({"encoding": replace(offer(1).encoding, codec="odd")}, "codec 'odd'"),
        ({"encoding": replace(offer(1).encoding, width_px=60_000, height_px=60_000)}, "pixels"),
        ({"encoding": replace(offer(1).encoding, width_px=0)}, "decoded bytes"),
        ({"id": FrameId("gw", RUN, "door", 0)}, "no sequence number"),
    ],
)
def test_a_payload_that_can_never_be_taken_is_refused_in_words_and_holds_up_no_other(
    rig: Rig, changes: dict[str, Any], words: str
) -> None:
    up = Uploader(rig)
    need = up.have(offer(1, **changes), offer(2))
    (refusal,) = need.refusals
    assert refusal.index == 0
    assert words in refusal.text
    assert [w.index for w in need.wants] == [1]


def test_more_bytes_than_announced_are_refused_in_words(rig: Rig) -> None:
    up = Uploader(rig)
    up.have(offer(1))
    up.chunk(content(1) + b"x", 0)
    (error,) = up.peer.wait(Error)
    assert error.reason is RejectReason.BAD_PAYLOAD
    assert "more than the 1000 announced" in error.text


def test_too_many_payloads_at_once_are_refused_in_words(rig: Rig) -> None:
    peer, session = rig.connect(BULK)
    session.receive(Have(payloads=tuple(offer(n) for n in range(1, 66)), have=1), clock_us())
    (error,) = peer.wait(Error)
    assert "64 are the most" in error.text


def test_records_beside_pieces_are_acked_when_they_are_committed(rig: Rig) -> None:
    up = Uploader(rig)
    up.have(offer(1))
    data, size = pack([Record(id=offer(1).id, answered_by=AnsweredBy.NEAR, status=Status.OK)])
    piece = Chunk(index=0, offset_bytes=0, data=content(1), have=1)
    up.session.receive(BulkBatch(batch=7, records_zstd=data, records_bytes=size, chunks=(piece,)), clock_us())
    up.wait_acked(1)
    up.wait_batch(7)
    assert rig.store.identities() == [FrameId("gw", RUN, "door", 1)]


def test_beyond_the_quota_the_least_worth_goes_and_is_not_asked_for_again(rig: Rig) -> None:
    up = Uploader(rig)
    size = QUOTA_BYTES // 2
    low = offer(1, content(1, size), priority=Priority.LOW, hard=False)
    for seq, one in ((1, low), (2, offer(2, content(2, size))), (3, offer(3, content(3, size)))):
        up.have(one)
        up.chunk(content(seq, size), 0)
        up.wait_acked(seq)
    (ref,) = payloads(rig).refs([low.id])
    assert not ref.kept
    assert up.have(low).wants == ()
    assert kept(rig, 3) == content(3, size)


def test_a_worker_without_a_payload_store_says_so(tmp_path: Path) -> None:
    with rig_in(tmp_path) as rig:
        peer, session = rig.connect(BULK)
        assert peer.only(Welcome).limits.payload_bytes == 0
        session.receive(Have(payloads=(offer(1),), have=1), clock_us())
        (error,) = peer.wait(Error)
        assert error.reason is RejectReason.NOT_ALLOWED
        assert "store.payloads" in error.text


def test_offers_of_connections_that_are_gone_are_forgotten(rig: Rig) -> None:
    up = Uploader(rig)
    up.have(offer(1))
    peer: FakePeer = up.peer
    session: WorkerSession = up.session
    session.closed()
    session.receive(BulkBatch(batch=1, chunks=()), clock_us())
    assert len(peer.all(Need)) == 1
