"""The worker without a transport: what an agent may rely on, message by message."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.limits import ServiceLimits
from cloud.service import Service
from cloud.session import WorkerSession
from cloud.store.records import RecordStore
from pipelines.errors import ConfigError, Fatal, Rejected
from pipelines.frame import Encoding, FrameId
from pipelines.result import AnsweredBy, Gap, GapReason, Record, Status
from protos.wire.bulk import Ack, BulkBatch, Chunk, Have, RecordRange
from protos.wire.live import Cancel, FrameBody, FrameHead, Reject, Result
from protos.wire.records import pack
from protos.wire.session import (
    Error,
    Goodbye,
    Hello,
    Lane,
    Ping,
    Pong,
    RejectReason,
    StreamInfo,
    Welcome,
)
from tests.support.eventually import eventually
from tests.support.peers import FakePeer
from tests.support.workers import MODEL, GatedDetector, clock_us, service

RUN = bytes(range(16))
OTHER_RUN = bytes(16)
HELLO = Hello(
    agent="gw", run=RUN, lane=Lane.LIVE, streams=(StreamInfo(name="door", width_px=640, height_px=480),)
)
ENCODING = Encoding(codec="raw", quality=50, width_px=320, height_px=240, body_bytes=10)


class Rig:
    """One service, its store, its detector, and connections to it."""

    def __init__(self, made: Service, store: RecordStore, detector: GatedDetector) -> None:
        self.service, self.store, self.detector = made, store, detector
        self.peer = FakePeer()
        self.session = made.open(self.peer)

    def connect(self, hello: Hello) -> tuple[FakePeer, WorkerSession]:
        peer = FakePeer()
        session = self.service.open(peer)
        session.receive(hello, clock_us())
        return peer, session

    def welcome(self) -> None:
        self.session.receive(HELLO, clock_us())
        self.peer.only(Welcome)

    def head(
        self, seq: int, *, budget_us: int = 5_000_000, encoding: Encoding = ENCODING, stream: int = 0
    ) -> None:
        self.session.receive(
            FrameHead(stream=stream, seq=seq, worker_budget_us=budget_us, sent_mono_us=0, encoding=encoding),
            clock_us(),
        )

    def body(self, seq: int, data: bytes = b"0123456789") -> None:
        self.session.receive(FrameBody(stream=0, seq=seq, data=data), clock_us())

    def frame(self, seq: int, *, budget_us: int = 5_000_000) -> None:
        self.head(seq, budget_us=budget_us)
        self.body(seq)

    def errors(self) -> list[RejectReason]:
        return [e.reason for e in self.peer.all(Error)]

    def outcome(self, name: str) -> float:
        return self.service.metrics.value("nearfar_worker_frames_total", outcome=name)


@contextmanager
def rig_in(
    folder: Path,
    *,
    limits: ServiceLimits | None = None,
    clock: Callable[[], int] = clock_us,
    timer: bool = True,
) -> Iterator[Rig]:
    detector = GatedDetector()
    with service(folder, build=lambda: detector, limits=limits, clock=clock, timer=timer) as (made, store):
        try:
            yield Rig(made, store, detector)
        finally:
            detector.gate.set()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with rig_in(tmp_path) as made:
        yield made


def test_nothing_is_served_before_a_hello(rig: Rig) -> None:
    rig.session.receive(Ping(nonce=1, sent_mono_us=0), clock_us())
    rig.head(1)
    rig.body(1)
    assert rig.errors() == [RejectReason.HELLO_REQUIRED]
    assert rig.peer.only(Reject).reason is RejectReason.HELLO_REQUIRED


def test_a_welcome_names_models_limits_credit_and_the_store(rig: Rig) -> None:
    rig.welcome()
    welcome = rig.peer.only(Welcome)
    assert [(m.name, m.sha256, m.labels) for m in welcome.models] == [(MODEL, "ab" * 32, ("thing",))]
    assert welcome.store_id == rig.store.store_id
    assert welcome.credit.frames == 8


@pytest.mark.parametrize(
    ("hello", "reason", "words"),
    [
        (replace(HELLO, protocol_min=7, protocol_max=9), RejectReason.VERSION, "protocol 1"),
        (replace(HELLO, model="yolo"), RejectReason.NO_MODEL, "it has synthetic"),
        (replace(HELLO, model_sha256="cd" * 32), RejectReason.NO_MODEL, "has sha256"),
        (replace(HELLO, agent=""), RejectReason.NOT_ALLOWED, "name of an agent"),
        (replace(HELLO, streams=HELLO.streams * 2), RejectReason.NOT_ALLOWED, "same name"),
        (
            replace(HELLO, streams=(StreamInfo(name="a", width_px=0, height_px=9),)),
            RejectReason.NOT_ALLOWED,
            "width",
        ),
        (
            replace(
                HELLO, streams=tuple(StreamInfo(name=str(i), width_px=1, height_px=1) for i in range(17))
            ),
            RejectReason.NOT_ALLOWED,
            "17 streams",
        ),
    ],
)
def test_a_hello_that_cannot_be_served_is_refused_with_words(
    rig: Rig, hello: Hello, reason: RejectReason, words: str
) -> None:
    rig.session.receive(hello, clock_us())
    error = rig.peer.only(Error)
    assert error.reason is reason
    assert words in error.text
    assert not error.retry


def test_a_result_comes_in_source_pixels_with_timing_and_its_record_is_acked_after_the_commit(
    rig: Rig,
) -> None:
    rig.welcome()
    rig.frame(1)
    (result,) = rig.peer.wait(Result)
    assert result.detections.boxes.tolist() == [[0, 0, 640, 480]]
    assert result.model_sha256 == "ab" * 32
    assert 0 <= result.timing.detect_us <= result.timing.resident_us
    assert result.timing.head_mono_us <= result.timing.body_mono_us
    (ack,) = rig.peer.wait(Ack)
    assert ack.records == (RecordRange(run=RUN, stream="door", first=1, last=1),)
    (row,) = rig.store.rows()
    assert row.id == FrameId("gw", RUN, "door", 1)
    assert row.best == result.detections
    assert row.answered_by is None


def test_a_frame_whose_budget_is_spent_is_rejected_before_its_body_crosses(rig: Rig) -> None:
    rig.welcome()
    rig.head(1, budget_us=0)
    reject = rig.peer.only(Reject)
    assert (reject.seq, reject.reason) == (1, RejectReason.TOO_LATE)
    rig.body(1)
    assert rig.errors() == []
    assert rig.detector.runs == 0


def test_a_queue_that_is_longer_than_the_budget_is_said_at_once(rig: Rig) -> None:
    rig.welcome()
    rig.service.backlog.ready(MODEL, change=0, service_us=400_000)
    rig.detector.gate.clear()
    rig.frame(1)
    eventually(rig.detector.running.is_set, what="a run")
    rig.frame(2)
    rig.head(3, budget_us=600_000)
    reject = rig.peer.only(Reject)
    assert (reject.seq, reject.reason) == (3, RejectReason.TOO_LATE)
    assert 400_000 <= reject.queue_us <= 800_000
    assert reject.load.service_p50_us == 400_000


def test_a_body_without_a_head_is_a_counted_error_and_the_connection_stays(rig: Rig) -> None:
    rig.welcome()
    rig.body(9)
    assert rig.errors() == [RejectReason.BAD_PAYLOAD]
    assert rig.service.metrics.value("nearfar_worker_errors_total", reason="bad_payload") == 1
    rig.frame(10)
    rig.peer.wait(Result)


def test_an_agent_over_its_credit_is_refused_and_served_again_once_it_has_answers(tmp_path: Path) -> None:
    with rig_in(tmp_path, limits=ServiceLimits(frames_in_flight=2)) as rig:
        rig.welcome()
        rig.detector.gate.clear()
        for seq in (1, 2, 3):
            rig.frame(seq)
        assert rig.peer.only(Reject).reason is RejectReason.OVER_CREDIT
        rig.detector.gate.set()
        rig.peer.wait(Result, 2)
        rig.frame(4)
        rig.peer.wait(Result, 3)


@pytest.mark.parametrize(
    ("encoding", "reason"),
    [
        (replace(ENCODING, body_bytes=9 << 20), RejectReason.TOO_LARGE),
        (replace(ENCODING, width_px=5000, height_px=5000), RejectReason.TOO_LARGE),
        (replace(ENCODING, codec="webp"), RejectReason.BAD_PAYLOAD),
    ],
)
def test_a_payload_this_worker_cannot_take_is_refused_on_its_head(
    rig: Rig, encoding: Encoding, reason: RejectReason
) -> None:
    rig.welcome()
    rig.head(1, encoding=encoding)
    assert rig.peer.only(Reject).reason is reason


def test_a_stream_the_hello_did_not_name_is_refused(rig: Rig) -> None:
    rig.welcome()
    rig.head(1, stream=1)
    assert rig.peer.only(Reject).reason is RejectReason.NOT_ALLOWED


def test_damaged_and_short_bodies_are_rejected_and_hurt_no_other_frame(rig: Rig) -> None:
    rig.welcome()
    rig.head(1)
    rig.body(1, b"damaged___")
    rig.head(2)
    rig.body(2, b"short")
    rig.frame(3)
    rig.peer.wait(Result)
    rejects = {r.seq: r.reason for r in rig.peer.wait(Reject, 2)}
    assert rejects == {1: RejectReason.BAD_PAYLOAD, 2: RejectReason.BAD_PAYLOAD}


def test_a_cancelled_frame_is_not_started_and_a_started_run_is_finished_and_sent(rig: Rig) -> None:
    rig.welcome()
    rig.detector.gate.clear()
    rig.frame(1)
    eventually(rig.detector.running.is_set, what="a run")
    rig.frame(2)
    for seq in (1, 2):
        rig.session.receive(Cancel(stream=0, seq=seq), clock_us())
    rig.detector.gate.set()
    rig.frame(3)
    assert [r.seq for r in rig.peer.wait(Result, 2)] == [1, 3]
    assert rig.outcome("cancelled") == 1


def test_a_body_that_crosses_its_cancel_is_dropped_in_silence(rig: Rig) -> None:
    rig.welcome()
    rig.head(1)
    rig.session.receive(Cancel(stream=0, seq=1), clock_us())
    rig.body(1)
    assert rig.errors() == []
    assert rig.outcome("cancelled") == 1


def test_a_model_that_breaks_is_said_and_rebuilt_and_the_worker_lives(rig: Rig) -> None:
    rig.welcome()
    rig.detector.fail = Fatal("engine broke")
    rig.frame(1)
    (reject,) = rig.peer.wait(Reject)
    assert reject.reason is RejectReason.FAILED
    assert "engine broke" in reject.text
    rig.detector.fail = None
    eventually(
        lambda: rig.service.metrics.value("nearfar_worker_model_restarts_total", model=MODEL) == 1,
        what="a rebuild",
    )
    assert rig.service.not_ready() == []
    rig.frame(2)
    rig.peer.wait(Result)


def test_a_picture_the_model_cannot_take_is_rejected_without_a_rebuild(rig: Rig) -> None:
    rig.welcome()
    rig.detector.fail = Rejected("too small")
    rig.frame(1)
    assert rig.peer.wait(Reject)[0].reason is RejectReason.BAD_PAYLOAD
    assert rig.service.metrics.value("nearfar_worker_model_restarts_total", model=MODEL) == 0


def test_detections_are_capped(tmp_path: Path) -> None:
    with rig_in(tmp_path, limits=ServiceLimits(detections=3)) as rig:
        rig.detector.boxes = 10
        rig.welcome()
        rig.frame(1)
        assert len(rig.peer.wait(Result)[0].detections) == 3


def test_a_pong_carries_load_and_credit_at_once(rig: Rig) -> None:
    rig.welcome()
    rig.detector.gate.clear()
    rig.frame(1)
    rig.session.receive(Ping(nonce=7, sent_mono_us=0), clock_us())
    pong = rig.peer.only(Pong)
    assert (pong.nonce, pong.credit) == (7, rig.peer.only(Welcome).credit)
    assert pong.resident_us >= 0


def test_expired_work_is_rejected_and_not_started(tmp_path: Path) -> None:
    now = [1_000_000]
    with rig_in(tmp_path, clock=lambda: now[0], timer=False) as rig:
        rig.session.receive(HELLO, now[0])
        rig.detector.gate.clear()
        head = FrameHead(stream=0, seq=1, worker_budget_us=50_000, sent_mono_us=0, encoding=ENCODING)
        for seq in (1, 2, 3, 4):
            rig.session.receive(replace(head, seq=seq), now[0])
            if seq < 4:  # the body of the last one never comes
                rig.session.receive(FrameBody(stream=0, seq=seq, data=b"0123456789"), now[0])
            if seq == 1:
                eventually(rig.detector.running.is_set, what="a run")
        now[0] += 60_000
        rig.service.tick(now[0])
        rig.detector.gate.set()
        rejects = {r.seq: r.reason for r in rig.peer.wait(Reject, 3)}
        assert rejects == dict.fromkeys((2, 3, 4), RejectReason.EXPIRED)
        assert [r.seq for r in rig.peer.wait(Result)] == [1]
        assert rig.detector.runs == 1


def test_results_go_to_the_newest_connection_of_the_run_when_theirs_is_gone_by_stream_name(rig: Rig) -> None:
    rig.welcome()
    rig.detector.gate.clear()
    rig.frame(1)
    eventually(rig.detector.running.is_set, what="a run")
    other, _ = rig.connect(
        replace(HELLO, streams=(StreamInfo(name="yard", width_px=9, height_px=9), *HELLO.streams))
    )
    rig.peer.gone = True
    rig.session.closed()
    rig.detector.gate.set()
    (result,) = other.wait(Result)
    assert (result.stream, result.seq) == (1, 1)
    assert other.wait(Ack)[0].records[0].stream == "door"


def test_a_result_nobody_is_left_to_take_is_counted_and_kept(rig: Rig) -> None:
    rig.welcome()
    rig.detector.gate.clear()
    rig.frame(1)
    eventually(rig.detector.running.is_set, what="a run")
    rig.peer.gone = True
    rig.session.closed()
    rig.detector.gate.set()
    eventually(lambda: len(rig.store.identities()) == 1, what="the record")
    assert rig.service.metrics.value("nearfar_worker_undelivered_total") == 1


def test_a_head_whose_connection_goes_before_its_body_is_counted_lost_and_frees_its_place(rig: Rig) -> None:
    rig.welcome()
    rig.head(1)
    assert rig.service.backlog.waiting() == (1, 10)
    rig.session.receive(Goodbye(reason="test"), clock_us())
    assert rig.service.backlog.waiting() == (0, 0)
    assert rig.outcome("lost") == 1
    assert rig.peer.closed
    assert rig.service.sessions == 0


def test_a_draining_worker_admits_nothing_and_finishes_what_it_has(rig: Rig) -> None:
    rig.welcome()
    rig.detector.gate.clear()
    rig.frame(1)
    eventually(rig.detector.running.is_set, what="a run")
    assert not rig.service.drain(1_000)
    rig.head(2)
    assert rig.peer.only(Reject).reason is RejectReason.DRAINING
    late, _ = rig.connect(HELLO)
    assert late.only(Error).reason is RejectReason.DRAINING
    rig.detector.gate.set()
    assert rig.service.drain(5_000_000)
    assert len(rig.peer.all(Ack)) == 1
    assert rig.service.not_ready() == ["draining"]


# --- two agents of one name -------------------------------------------------------------------------------


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Rig]:
    with rig_in(tmp_path, timer=False) as made:
        made.session.receive(HELLO, 0)
        yield made


CLONE = replace(HELLO, run=OTHER_RUN)


def newcomer(rig: Rig) -> tuple[FakePeer, WorkerSession]:
    peer = FakePeer()
    session = rig.service.open(peer)
    session.receive(CLONE, 1_000)
    return peer, session


def test_a_second_agent_of_the_same_name_is_refused_while_the_first_answers(frozen: Rig) -> None:
    peer, _ = newcomer(frozen)
    assert peer.sent == []
    ping = frozen.peer.only(Ping)
    frozen.session.receive(Pong(nonce=ping.nonce, arrived_mono_us=0, resident_us=0), 2_000)
    error = peer.only(Error)
    assert error.reason is RejectReason.NOT_ALLOWED
    assert "cloned card" in error.text
    frozen.service.tick(10_000_000)
    assert peer.all(Welcome) == []


def test_a_name_whose_owner_is_silent_goes_to_the_newcomer_after_half_a_second(frozen: Rig) -> None:
    peer, _ = newcomer(frozen)
    frozen.service.tick(500_999)
    assert peer.sent == []
    frozen.service.tick(501_000)
    peer.only(Welcome)
    frozen.head(1)
    assert frozen.peer.only(Reject).reason is RejectReason.HELLO_REQUIRED


def test_a_name_whose_owner_is_gone_goes_to_the_newcomer_at_once(frozen: Rig) -> None:
    frozen.peer.gone = True
    peer, _ = newcomer(frozen)
    peer.only(Welcome)


def test_an_owner_that_leaves_while_asked_frees_its_name(frozen: Rig) -> None:
    peer, _ = newcomer(frozen)
    frozen.session.closed()
    peer.only(Welcome)


def test_a_stale_pong_does_not_refuse_anybody(frozen: Rig) -> None:
    peer, _ = newcomer(frozen)
    nonce = frozen.peer.only(Ping).nonce
    frozen.session.receive(Pong(nonce=nonce + 1, arrived_mono_us=0, resident_us=0), 2_000)
    assert peer.sent == []


def test_a_newcomer_that_leaves_while_waiting_is_never_welcomed(frozen: Rig) -> None:
    peer, session = newcomer(frozen)
    session.closed()
    frozen.service.tick(600_000)
    assert peer.sent == []


def test_the_same_run_may_connect_again_beside_its_older_connection(rig: Rig) -> None:
    rig.welcome()
    second, _ = rig.connect(HELLO)
    bulk, _ = rig.connect(replace(HELLO, lane=Lane.BULK))
    second.only(Welcome)
    bulk.only(Welcome)
    assert rig.service.sessions == 3
    assert rig.peer.all(Ping) == []


# --- the bulk lane ----------------------------------------------------------------------------------------


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


def test_a_model_of_another_file_than_wanted_does_not_start(tmp_path: Path) -> None:
    with ExitStack() as stack, pytest.raises(ConfigError, match="wanted is"):
        stack.enter_context(service(tmp_path, sha256="cd" * 32))
