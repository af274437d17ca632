"""What a worker refuses on a frame's head or body, and that it hurts no other frame."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.limits import ServiceLimits
from pipelines.errors import Rejected
from pipelines.frame import Encoding
from protos.wire.live import FrameHead, Reject, Result
from protos.wire.messages import decode_to_worker, encode, kind_to_worker
from protos.wire.session import RejectReason
from tests.support.eventually import eventually
from tests.support.rigs import ENCODING, Rig, rig_in
from tests.support.workers import MODEL, clock_us


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with rig_in(tmp_path) as made:
        yield made


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
    rig.service.backlog.work.ready(MODEL, change=0, seen=[(1, 400_000)])
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


def test_a_head_that_contradicts_itself_is_rejected_for_its_frame_and_the_connection_kept(rig: Rig) -> None:
    head = FrameHead(stream=0, seq=1, worker_budget_us=5_000_000, sent_mono_us=0, encoding=ENCODING)
    damaged = encode(head)
    damaged.encoding.decoded_bytes = 7  # type: ignore[attr-defined]
    rig.welcome()
    rig.session.receive(decode_to_worker(kind_to_worker(head), damaged.SerializeToString()), clock_us())
    rig.body(1)
    reject = rig.peer.only(Reject)
    assert (reject.seq, reject.reason) == (1, RejectReason.BAD_PAYLOAD)
    assert "7 decoded bytes" in reject.text
    assert rig.errors() == []
    rig.frame(2)
    rig.peer.wait(Result)


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


def test_a_picture_the_model_cannot_take_is_rejected_without_a_rebuild(rig: Rig) -> None:
    rig.welcome()
    rig.detector.fail = Rejected("too small")
    rig.frame(1)
    assert rig.peer.wait(Reject)[0].reason is RejectReason.BAD_PAYLOAD
    assert rig.service.metrics.value("nearfar_worker_model_restarts_total", model=MODEL) == 0


def test_a_frame_of_no_possible_size_is_rejected_for_its_frame_and_the_connection_kept(rig: Rig) -> None:
    head = FrameHead(
        stream=0,
        seq=1,
        worker_budget_us=5_000_000,
        sent_mono_us=0,
        encoding=ENCODING,
        source_width_px=640,
    )
    rig.welcome()
    rig.session.receive(decode_to_worker(kind_to_worker(head), encode(head).SerializeToString()), clock_us())
    assert rig.peer.only(Reject).reason is RejectReason.BAD_PAYLOAD
    assert "640x0 px" in rig.peer.only(Reject).text
    rig.frame(2)
    rig.peer.wait(Result)
