"""Admission: a frame is judged on its head, before its body crosses."""

from dataclasses import replace

import pytest

from cloud.scheduling.admission import PayloadLimits, QueueState, judge
from pipelines.frame import Encoding
from protos.wire.live import FrameHead
from protos.wire.session import RejectReason

LIMITS = PayloadLimits(message_bytes=1000, pixels=10_000, decompressed_bytes=30_000)
IDLE = QueueState(frames=0, size_bytes=0, max_frames=4, max_bytes=4000, queue_us=0, service_us=10_000)


def head(
    *,
    budget_us: int = 50_000,
    width_px: int = 100,
    height_px: int = 100,
    body_bytes: int = 500,
    bits: int = 8,
) -> FrameHead:
    encoding = Encoding(
        codec="jpeg", quality=50, width_px=width_px, height_px=height_px, bits=bits, body_bytes=body_bytes
    )
    return FrameHead(stream=0, seq=1, worker_budget_us=budget_us, sent_mono_us=0, encoding=encoding)


def reason(frame: FrameHead, queue: QueueState = IDLE) -> RejectReason | None:
    refusal = judge(frame, limits=LIMITS, queue=queue)
    return refusal.reason if refusal else None


def test_a_frame_that_fits_is_admitted() -> None:
    assert reason(head()) is None


def test_a_budget_of_exactly_queue_and_service_is_enough_and_one_less_is_not() -> None:
    queue = replace(IDLE, queue_us=20_000)
    assert reason(head(budget_us=30_000), queue) is None
    assert reason(head(budget_us=29_999), queue) is RejectReason.TOO_LATE


@pytest.mark.parametrize("budget_us", [0, -5])
def test_a_spent_budget_is_too_late_even_for_a_worker_that_never_ran(budget_us: int) -> None:
    assert reason(head(budget_us=budget_us), replace(IDLE, service_us=0)) is RejectReason.TOO_LATE


def test_the_words_of_too_late_name_both_numbers() -> None:
    refusal = judge(head(budget_us=5), limits=LIMITS, queue=replace(IDLE, queue_us=7))
    assert refusal is not None
    assert "5 µs" in refusal.text
    assert "10007 µs" in refusal.text


def test_a_full_queue_refuses_by_frames_and_by_bytes() -> None:
    assert reason(head(), replace(IDLE, frames=3)) is None
    assert reason(head(), replace(IDLE, frames=4)) is RejectReason.QUEUE_FULL
    assert reason(head(), replace(IDLE, size_bytes=3500)) is None
    assert reason(head(), replace(IDLE, size_bytes=3501)) is RejectReason.QUEUE_FULL


@pytest.mark.parametrize(
    "frame",
    [head(body_bytes=1001), head(width_px=101, height_px=100), head(bits=16)],
    ids=["body", "pixels", "decoded"],
)
def test_a_payload_over_a_limit_is_refused_before_it_is_sent(frame: FrameHead) -> None:
    assert reason(frame) is RejectReason.TOO_LARGE


def test_a_frame_without_a_body_or_a_size_is_no_payload() -> None:
    assert reason(head(body_bytes=0)) is RejectReason.BAD_PAYLOAD
    assert reason(head(width_px=0)) is RejectReason.BAD_PAYLOAD


def test_a_draining_worker_says_so_before_anything_else() -> None:
    assert reason(head(budget_us=0), replace(IDLE, draining=True)) is RejectReason.DRAINING


def test_a_broken_model_is_named() -> None:
    assert reason(head(), replace(IDLE, model_ready=False)) is RejectReason.NO_MODEL
