"""What a client that is no agent gets from one call: a result, or words and the status that says what to do."""

import queue
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import grpc
import numpy as np
import pytest

from cloud.limits import ServiceLimits
from cloud.listeners.grpc.infer import MOST_CALLS
from cloud.store import pace
from pipelines.codecs.zstd import ZstdCodec
from pipelines.frame import FrameId
from protos import inference_pb2 as pb
from protos.wire import envelope
from protos.wire.live import Result
from protos.wire.session import Ping, Pong
from tests.support.agents import HELLO, agent, frame
from tests.support.eventually import eventually
from tests.support.grey_picture import grey_picture
from tests.support.simple_worker import Worker, ended, worker_in
from tests.support.workers import MODEL

RUN = bytes(range(16))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with worker_in(tmp_path) as made:
        yield made


@pytest.mark.parametrize("name", [".jpg", ".png"])
def test_a_picture_alone_is_enough(worker: Worker, name: str) -> None:
    reply = worker.infer(data=grey_picture(name))
    (box,) = reply.boxes
    assert (box.x1_px, box.y1_px, box.x2_px, box.y2_px) == (0, 0, 64, 48)
    assert (box.label, box.class_id, round(box.score, 3)) == ("thing", 0, 0.9)
    assert (reply.model, reply.model_sha256) == (MODEL, "ab" * 32)
    assert reply.timing.resident_us > 0
    assert not reply.kept


def test_a_gray_picture_of_16_bits_is_read_from_its_own_header(worker: Worker) -> None:
    deep = bytes(cv2.imencode(".png", np.full((48, 64), 900, np.uint16))[1])
    # OpenCV writes nothing but IHDR, IDAT and IEND for it
    assert [box.x2_px for box in worker.infer(data=deep).boxes] == [64]


def test_boxes_come_back_in_pixels_of_the_picture_as_captured(worker: Worker) -> None:
    (box,) = worker.infer(data=grey_picture(), source_width_px=640, source_height_px=480).boxes
    assert (box.x2_px, box.y2_px) == (640, 480)


def test_pixels_without_a_header_are_taken_with_their_size(worker: Worker) -> None:
    body, _ = ZstdCodec().encode(np.zeros((48, 64, 3), np.uint8))
    status, words, _ = worker.refused(data=body, codec="zstd")
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert "give width_px and height_px" in words
    assert len(worker.infer(data=body, codec="zstd", width_px=64, height_px=48).boxes) == 1


@pytest.mark.parametrize(
    ("fields", "status", "reason", "words"),
    [
        ({"model": "yolo"}, grpc.StatusCode.NOT_FOUND, "no_model", "no model 'yolo'; it has synthetic"),
        ({"model_sha256": "cd" * 32}, grpc.StatusCode.NOT_FOUND, "no_model", "has sha256 abab"),
        ({"codec": "webp"}, grpc.StatusCode.INVALID_ARGUMENT, "bad_payload", "'webp' is not one of jpeg"),
        ({"data": b""}, grpc.StatusCode.INVALID_ARGUMENT, "bad_payload", "name its codec"),
        ({"data": b"GIF89a"}, grpc.StatusCode.INVALID_ARGUMENT, "bad_payload", "name its codec"),
        ({"data": b"\xff\xd8\xff\xe0"}, grpc.StatusCode.INVALID_ARGUMENT, "bad_payload", "JPEG"),
        ({"data": grey_picture()[:-300]}, grpc.StatusCode.INVALID_ARGUMENT, "bad_payload", "JPEG"),
        ({"width_px": 640, "height_px": 480}, grpc.StatusCode.INVALID_ARGUMENT, "bad_payload", "640x480"),
        ({"width_px": 64}, grpc.StatusCode.INVALID_ARGUMENT, "unknown_kind", "width and its height"),
        ({"channels": 2}, grpc.StatusCode.INVALID_ARGUMENT, "bad_payload", "2 channels"),
        (
            {"width_px": 65_000, "height_px": 65_000},
            grpc.StatusCode.INVALID_ARGUMENT,
            "too_large",
            "limits.pixels",
        ),
        ({"budget_us": -1}, grpc.StatusCode.INVALID_ARGUMENT, "unknown_kind", "budget_us is -1"),
        ({"agent": "shop", "seq": 1}, grpc.StatusCode.INVALID_ARGUMENT, "unknown_kind", "run, stream is not"),
        (
            {"agent": "a b", "run": RUN, "stream": "x", "seq": 1},
            grpc.StatusCode.PERMISSION_DENIED,
            "not_allowed",
            "name of the agent",
        ),
        (
            {"agent": "shop", "run": b"short", "stream": "x", "seq": 1},
            grpc.StatusCode.INVALID_ARGUMENT,
            "unknown_kind",
            "a run is 16 bytes",
        ),
        (
            {"agent": "shop", "run": RUN, "stream": "x", "seq": 1 << 63},
            grpc.StatusCode.PERMISSION_DENIED,
            "not_allowed",
            "seq counts from 1",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_with_words_and_the_right_status(
    worker: Worker, fields: dict[str, Any], status: grpc.StatusCode, reason: str, words: str
) -> None:
    found = worker.refused(**{"data": grey_picture(), **fields})
    assert (found[0], found[2]) == (status, reason)
    assert words in found[1]
    assert worker.detector.runs == 0
    assert len(worker.infer(data=grey_picture()).boxes) == 1


def test_bytes_that_are_no_request_are_refused_counted_and_disturb_nobody(worker: Worker) -> None:
    raw: Any = worker.channel.unary_unary(envelope.INFER, None, None)
    many = b"\x98\x06\x01" * 200_000  # of a field nobody knows
    for garbage in (b"\xff" * 20, b"\x0a\x7fshort", many):
        with pytest.raises(grpc.RpcError) as caught:
            raw(garbage, timeout=20)
        assert ended(caught.value)[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert worker.listener.refused_messages == 3
    assert len(worker.infer(data=grey_picture()).boxes) == 1


def test_a_picture_whose_header_claims_too_many_pixels_is_refused_before_anything_is_allocated(
    worker: Worker,
) -> None:
    """F10"""
    data = bytearray(grey_picture())
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", 60_000, 60_000)
    status, words, reason = worker.refused(data=bytes(data))
    assert (status, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "too_large")
    assert "limits.pixels" in words


def test_a_request_over_the_message_limit_is_refused_by_grpc(worker: Worker) -> None:
    assert worker.refused(data=b"\xff\xd8\xff" + bytes(2 << 20))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_budget_that_queue_and_run_exceed_is_refused_at_once_with_the_delay(worker: Worker) -> None:
    worker.service.backlog.work.ready(MODEL, change=0, seen=[(1, 80_000)])
    worker.service.backlog.work.ready(MODEL, change=0, seen=[(1, 80_000)])
    status, words, reason = worker.refused(data=grey_picture(), budget_us=20_000)
    assert (status, reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "too_late")
    assert "would take" in words


def test_the_deadline_of_the_call_is_its_budget(worker: Worker) -> None:
    """No result after it: the frame expires in the queue, and is never run."""
    worker.detector.gate.clear()
    first = worker.call.future(pb.InferRequest(data=grey_picture()))
    eventually(worker.detector.running.is_set, what="a run")
    status, _, _ = worker.refused(data=grey_picture(), timeout=0.2)
    assert status is grpc.StatusCode.DEADLINE_EXCEEDED
    eventually(lambda: worker.outcome("rejected") + worker.outcome("cancelled") == 1, what="its end")
    worker.detector.gate.set()
    assert len(first.result(10).boxes) == 1
    assert worker.detector.runs == 1


def test_a_budget_that_ends_in_the_queue_is_told_as_expired(worker: Worker) -> None:
    worker.detector.gate.clear()
    first = worker.call.future(pb.InferRequest(data=grey_picture()))
    eventually(worker.detector.running.is_set, what="a run")
    status, words, reason = worker.refused(data=grey_picture(), budget_us=50_000)
    assert (status, reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "expired")
    assert "its time was over" in words
    worker.detector.gate.set()
    assert len(first.result(10).boxes) == 1


def test_a_call_its_client_gives_up_leaves_the_queue(worker: Worker) -> None:
    worker.detector.gate.clear()
    first = worker.call.future(pb.InferRequest(data=grey_picture()))
    eventually(worker.detector.running.is_set, what="a run")
    second = worker.call.future(pb.InferRequest(data=grey_picture()))
    eventually(lambda: worker.service.backlog.waiting()[0] == 1, what="the second in the queue")
    second.cancel()
    eventually(lambda: worker.outcome("cancelled") == 1, what="its end")
    assert worker.service.backlog.waiting() == (0, 0)
    worker.detector.gate.set()
    assert len(first.result(10).boxes) == 1
    assert worker.detector.runs == 1


def test_a_run_that_fails_is_told_as_the_workers_fault(worker: Worker) -> None:
    worker.detector.fail = RuntimeError("the engine broke")
    status, words, reason = worker.refused(data=grey_picture())
    assert (status, reason) == (grpc.StatusCode.INTERNAL, "failed")
    assert "the engine broke" in words


def test_a_worker_that_stops_says_so(worker: Worker) -> None:
    worker.service.drain(1_000_000)
    status, words, reason = worker.refused(data=grey_picture())
    assert (status, reason) == (grpc.StatusCode.UNAVAILABLE, "draining")
    assert "stopping" in words


def test_a_frame_that_is_named_is_kept_and_answered_after_its_commit(worker: Worker) -> None:
    reply = worker.infer(data=grey_picture(), agent="shop", run=RUN, stream="till", seq=7)
    assert reply.kept
    assert worker.store.identities() == [FrameId("shop", RUN, "till", 7)]


def test_a_frame_that_is_named_does_not_wait_for_others_to_be_committed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SHARE", "COMPANY", "LONGEST_US"):  # live results of agents would wait for hours
        monkeypatch.setattr(pace, name, 10**10)
    with worker_in(tmp_path, commit_every_us=1000) as worker:
        named: dict[str, Any] = {"agent": "shop", "run": RUN, "stream": "till"}
        kept = [worker.infer(data=grey_picture(), seq=seq, **named).kept for seq in (1, 2, 3)]
    assert kept == [True, True, True]


def test_a_frame_without_a_name_leaves_no_record(worker: Worker) -> None:
    assert not worker.infer(data=grey_picture()).kept
    worker.infer(data=grey_picture(), agent="shop", run=RUN, stream="till", seq=1)
    assert [frame.agent for frame in worker.store.identities()] == ["shop"]


def test_a_name_that_a_connected_agent_has_is_not_to_be_taken(worker: Worker) -> None:
    """F31: records of two with one name would overwrite each other."""
    with agent(worker.listener.address) as gateway:
        gateway.send(HELLO)
        gateway.receive()
        status, words, _ = worker.refused(data=grey_picture(), agent="gw", run=RUN, stream="door", seq=1)
        assert status is grpc.StatusCode.PERMISSION_DENIED
        assert "a name of its own" in words
        assert worker.infer(data=grey_picture(), agent="gw", run=HELLO.run, stream="door", seq=1).kept


def test_simple_clients_share_one_window_and_leave_agents_theirs(tmp_path: Path) -> None:
    with worker_in(tmp_path, limits=ServiceLimits(frames_in_flight=2)) as worker:
        worker.detector.gate.clear()
        calls = [worker.call.future(pb.InferRequest(data=grey_picture())) for _ in range(2)]
        eventually(worker.detector.running.is_set, what="a run")
        eventually(lambda: worker.service.backlog.waiting()[0] == 1, what="the second in the queue")
        status, words, reason = worker.refused(data=grey_picture())
        assert (status, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "over_credit")
        assert "in flight" in words
        with agent(worker.listener.address) as gateway:
            gateway.send(HELLO, *frame(1, grey_picture()))
            eventually(
                lambda: worker.service.backlog.waiting()[0] == 2, what="the agent's frame in the queue"
            )
            worker.detector.gate.set()
            gateway.until(Result)
        assert [len(call.result(10).boxes) for call in calls] == [1, 1]


def test_a_call_that_sends_no_picture_is_ended_and_gives_its_place_back(tmp_path: Path) -> None:
    with worker_in(tmp_path, silent_us=100_000) as worker:
        never: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        ask: Any = worker.channel.stream_unary(envelope.INFER, None, None)
        held = [ask.future(iter(never.get, None), timeout=60) for _ in range(MOST_CALLS // 2)]
        errors: list[Any] = [call.exception(20) for call in held]
        for _ in held:
            never.put(None)  # lets the client's own threads go
        assert {error.code() for error in errors} == {grpc.StatusCode.CANCELLED}
        assert len(worker.infer(data=grey_picture()).boxes) == 1


def test_more_calls_than_there_are_places_are_refused_and_agents_still_served(tmp_path: Path) -> None:
    with worker_in(tmp_path, limits=ServiceLimits(frames_in_flight=100)) as worker:
        flood(worker)


def flood(worker: Worker) -> None:
    worker.detector.gate.clear()
    channels = [
        grpc.insecure_channel(
            worker.listener.address.removeprefix("grpc://"),
            options=(("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)),
        )
        for _ in range(4)
    ]
    threads = threading.active_count()
    try:
        calls = []
        for channel in channels:
            ask: Any = channel.unary_unary(envelope.INFER, None, None)
            request = pb.InferRequest(data=grey_picture()).SerializeToString()
            calls += [ask.future(request, timeout=20) for _ in range(16)]
        eventually(
            lambda: sum(c.done() for c in calls) == len(calls) - MOST_CALLS,
            what="those without a place refused",
        )
        with agent(worker.listener.address) as gateway:
            gateway.send(HELLO)
            gateway.receive()
            gateway.send(Ping(nonce=1, sent_mono_us=0))
            assert gateway.until(Pong).nonce == 1
        assert threading.active_count() < threads + MOST_CALLS + 30
    finally:
        worker.detector.gate.set()
        failed = [ended(error) for error in (call.exception(10) for call in calls) if error is not None]
        for channel in channels:
            channel.close()
    assert {status for status, _, _ in failed} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert len(failed) == len(calls) - MOST_CALLS
    assert worker.listener.refused_messages == len(failed)
    assert len(worker.infer(data=grey_picture()).boxes) == 1
