"""The worker without a transport: what an agent may rely on for its frames."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.limits import ServiceLimits
from pipelines.errors import Fatal, Retryable
from pipelines.frame import FrameId
from protos.wire.bulk import Ack, RecordRange
from protos.wire.live import Cancel, FrameBody, FrameHead, Reject, Result
from protos.wire.session import Error, Goodbye, Ping, Pong, RejectReason, StreamInfo, Welcome
from tests.support.eventually import eventually
from tests.support.rigs import ENCODING, HELLO, RUN, Rig, rig_in
from tests.support.workers import MODEL, clock_us


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with rig_in(tmp_path) as made:
        yield made


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


def test_live_results_go_on_while_the_store_refuses_and_acks_follow_once_it_takes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise Retryable("the record store cannot write: disk is full")

    rig.welcome()
    with monkeypatch.context() as patched:
        patched.setattr(rig.store, "commit", refuse)
        for seq in (1, 2):
            rig.frame(seq)
        rig.peer.wait(Result, 2)
        eventually(lambda: "disk is full" in "".join(rig.service.not_ready()), what="words about the disk")
        assert rig.peer.all(Ack) == []
    eventually(
        lambda: sum(r.last - r.first + 1 for a in rig.peer.all(Ack) for r in a.records) == 2,
        what="acks of both",
    )
    assert len(rig.store.identities()) == 2
    assert rig.service.not_ready() == []


def test_the_time_of_a_model_is_shown_by_its_name_and_from_the_start(rig: Rig) -> None:
    name = "nearfar_worker_service_seconds_count"
    assert f'{name}{{model="{MODEL}"}} 0.0' in rig.service.metrics.text().decode()
    rig.welcome()
    rig.frame(1)
    eventually(lambda: rig.service.metrics.value(name, model=MODEL) == 1, what="a counted run")
