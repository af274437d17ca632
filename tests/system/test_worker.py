"""`nearfar cloud` as its users meet it: a process, its ready line, its ZeroMQ port, its exit."""

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import cv2
import numpy as np
import pytest
import zmq

from cloud.listeners.zmq import ZmqListener
from cloud.service import Service
from cloud.store.records import open_store
from pipelines.errors import ConfigError
from pipelines.frame import Encoding
from protos.wire.bulk import Ack
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.messages import ToAgent, ToWorker
from protos.wire.multipart import pack_to_worker, unpack_to_agent
from protos.wire.session import Error, Goodbye, Hello, Lane, Ping, Pong, RejectReason, StreamInfo, Welcome
from tests.support.eventually import eventually
from tests.support.ipv6 import need_ipv6
from tests.support.workers import GatedDetector, WorkerProcess, clock_us, service

M = TypeVar("M")
HELLO = Hello(
    agent="gw", run=bytes(16), lane=Lane.LIVE, streams=(StreamInfo(name="door", width_px=640, height_px=480),)
)


class Agent:
    """A bare DEALER that speaks the wire."""

    def __init__(self, address: str, *, ipv6: bool = False) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.set(zmq.LINGER, 0)
        self.socket.set(zmq.IPV6, ipv6)
        self.socket.connect(address)

    def send(self, *messages: ToWorker) -> None:
        for message in messages:
            self.socket.send_multipart(pack_to_worker(message))

    def send_raw(self, parts: Sequence[bytes]) -> None:
        self.socket.send_multipart(list(parts))

    def receive(self) -> ToAgent:
        assert self.socket.poll(10_000), "nothing came"
        return unpack_to_agent(self.socket.recv_multipart())

    def until(self, kind: type[M]) -> M:
        """The next message of this kind, past others."""
        while True:
            message = self.receive()
            if isinstance(message, kind):
                return message

    def close(self) -> None:
        self.socket.close()
        self.context.term()


@contextmanager
def agent(address: str, *, ipv6: bool = False) -> Iterator[Agent]:
    made = Agent(address, ipv6=ipv6)
    try:
        yield made
    finally:
        made.close()


def frame(
    seq: int, data: bytes, *, codec: str = "jpeg", size: tuple[int, int] = (64, 48)
) -> tuple[FrameHead, FrameBody]:
    encoding = Encoding(codec=codec, quality=80, width_px=size[0], height_px=size[1], body_bytes=len(data))
    head = FrameHead(stream=0, seq=seq, worker_budget_us=5_000_000, sent_mono_us=0, encoding=encoding)
    return head, FrameBody(stream=0, seq=seq, data=data)


def jpeg() -> bytes:
    done, data = cv2.imencode(".jpg", np.full((48, 64, 3), 90, np.uint8))
    assert done
    return data.tobytes()


# --- the listener, in this process ------------------------------------------------------------------------


@contextmanager
def listening(folder: Path, **options: Any) -> Iterator[tuple[Service, ZmqListener, GatedDetector]]:
    detector = GatedDetector()
    with service(folder, build=lambda: detector) as (made, _):
        listener = ZmqListener(made, address="127.0.0.1:0", clock_us=clock_us, **options)
        listener.start()
        try:
            yield made, listener, detector
        finally:
            detector.gate.set()
            listener.stop()


def test_an_unknown_connection_is_asked_for_a_hello_and_then_served(tmp_path: Path) -> None:
    with listening(tmp_path) as (_, listener, _), agent(listener.address) as gateway:
        gateway.send(Ping(nonce=1, sent_mono_us=0))
        error = gateway.receive()
        assert isinstance(error, Error)
        assert error.reason is RejectReason.HELLO_REQUIRED
        gateway.send(HELLO, *frame(1, b"0123456789", codec="raw"))
        gateway.until(Welcome)
        result = gateway.until(Result)
        assert result.detections.boxes.tolist() == [[0, 0, 640, 480]]
        assert gateway.until(Ack).records[0].last == 1


def test_damaged_and_unknown_messages_are_answered_and_keep_the_connection(tmp_path: Path) -> None:
    with listening(tmp_path) as (_, listener, _), agent(listener.address) as gateway:
        gateway.send(HELLO)
        gateway.until(Welcome)
        for parts in (
            [b"\xc8", b""],
            [b"x"],
            [b"\x02", b"\xff\xff\xff"],
            [b"\x05", b"", b"payload"],
            [b"\x01"] * 5,
        ):
            gateway.send_raw(parts)
            assert gateway.until(Error).reason is RejectReason.UNKNOWN_KIND
        assert listener.refused_messages == 5
        gateway.send(Ping(nonce=9, sent_mono_us=0))
        assert gateway.until(Pong).nonce == 9


def test_a_silent_connection_is_forgotten_and_asked_for_a_hello_again(tmp_path: Path) -> None:
    with listening(tmp_path, silent_us=20_000) as (made, listener, _), agent(listener.address) as gateway:
        gateway.send(HELLO)
        gateway.until(Welcome)
        eventually(lambda: made.sessions == 0, what="the silent session's end")
        gateway.send(Ping(nonce=1, sent_mono_us=0))
        assert gateway.until(Error).reason is RejectReason.HELLO_REQUIRED


def test_a_connection_that_is_gone_ends_its_session_at_the_next_reply(tmp_path: Path) -> None:
    with listening(tmp_path) as (made, listener, detector):
        with agent(listener.address) as gateway:
            detector.gate.clear()
            gateway.send(HELLO, *frame(1, b"0123456789", codec="raw"))
            gateway.until(Welcome)
            eventually(detector.running.is_set, what="a run")
        detector.gate.set()  # the reply finds nobody there: that is how a ROUTER learns of a lost peer
        eventually(lambda: made.sessions == 0, what="the lost session's end")


def test_a_goodbye_ends_the_session_at_once(tmp_path: Path) -> None:
    with listening(tmp_path) as (made, listener, _), agent(listener.address) as gateway:
        gateway.send(HELLO)
        gateway.until(Welcome)
        assert made.sessions == 1
        gateway.send(Goodbye(reason="done"))
        eventually(lambda: made.sessions == 0, what="the session's end")


def test_a_message_over_the_limit_never_reaches_the_service(tmp_path: Path) -> None:
    with listening(tmp_path, max_message_bytes=10_000) as (made, listener, _):
        with agent(listener.address) as gateway:
            gateway.send(HELLO)
            gateway.until(Welcome)
            head, body = frame(1, b"x" * 20_000, codec="raw")
            gateway.send(head, body)
        with agent(listener.address) as other:
            other.send(Hello(agent="other", run=bytes(16), lane=Lane.LIVE, streams=HELLO.streams))
            other.until(Welcome)
            other.send(*frame(1, b"0123456789", codec="raw"))
            other.until(Result)
        assert made.metrics.value("nearfar_worker_frames_total", outcome="answered") == 1


def test_an_address_in_use_is_named_and_a_stopped_listener_leaves_no_thread(tmp_path: Path) -> None:
    with listening(tmp_path) as (made, listener, _):
        taken = listener.address.removeprefix("tcp://")
        second = ZmqListener(made, address=taken, clock_us=clock_us)
        with pytest.raises(ConfigError, match=r"listen\.zmq\.address"):
            second.start()
    assert all(t.name != "nearfar-zmq-listener" for t in threading.enumerate())


# --- the process ------------------------------------------------------------------------------------------


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    made = WorkerProcess(tmp_path / "worker")
    yield made
    made.kill()


def get(worker: WorkerProcess, path: str) -> str:
    with urllib.request.urlopen(worker.ready["http"] + path, timeout=5) as reply:  # noqa: S310 - our own http address
        return str(reply.read().decode())


def test_a_worker_serves_frames_keeps_records_and_leaves_cleanly(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    assert worker.ready["ready"] is True
    assert get(worker, "/readyz") == "ready\n"
    with agent(worker.ready["zmq"]) as gateway:
        gateway.send(HELLO)
        assert gateway.until(Welcome).store_id == worker.ready["store_id"]
        for seq in (1, 2, 3):
            gateway.send(*frame(seq, jpeg()))
            result = gateway.until(Result)
            assert (result.seq, len(result.detections)) == (seq, 2)
        gateway.send_raw([b"no message"])
        gateway.until(Error)
        metrics = get(worker, "/metrics")
        assert 'nearfar_worker_frames_total{outcome="answered"} 3.0' in metrics
        assert "nearfar_worker_refused_messages_total 1.0" in metrics
        assert (
            f'nearfar_worker_info{{name="test-worker",store_id="{worker.ready["store_id"]}"}} 1.0' in metrics
        )
    assert worker.terminate() == 0
    with open_store(worker.ready["store"], read_only=True) as store:
        assert [i.seq for i in store.identities()] == [1, 2, 3]
    shown = records(worker.ready["store"])
    assert "3 records" in shown
    assert "outcome not here yet 3" in shown
    lines = [json.loads(line) for line in records(worker.ready["store"], "--json").splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3]
    assert len(lines[0]["best_detections"]) == 2


def test_a_worker_on_ipv6_prints_urls_in_brackets_and_serves_on_them(tmp_path: Path) -> None:
    need_ipv6()
    sets = ("listen.http.address='[::1]:0'", "listen.zmq.address='[::1]:0'")
    worker = WorkerProcess(tmp_path / "six", sets=sets)
    try:
        assert worker.ready["http"].startswith("http://[::1]:")
        assert worker.ready["zmq"].startswith("tcp://[::1]:")
        assert get(worker, "/readyz") == "ready\n"
        with agent(worker.ready["zmq"], ipv6=True) as gateway:
            gateway.send(HELLO)
            assert gateway.until(Welcome).store_id == worker.ready["store_id"]
    finally:
        worker.kill()


def records(url: str, *options: str) -> str:
    command = [sys.executable, "-m", "nearfar", "records", "--store", url, *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


def test_a_frame_in_work_at_sigterm_is_finished_acked_and_kept(tmp_path: Path) -> None:
    worker = WorkerProcess(tmp_path / "slow", delay="500ms")
    try:
        with agent(worker.ready["zmq"]) as gateway:
            gateway.send(HELLO)
            gateway.until(Welcome)
            gateway.send(*frame(1, jpeg()), Ping(nonce=1, sent_mono_us=0))
            gateway.until(Pong)  # so both have arrived before the signal
            worker.process.terminate()
            assert gateway.until(Result).seq == 1
            assert gateway.until(Ack).records[0].first == 1
        assert worker.process.wait(15.0) == 0
        with open_store(worker.ready["store"], read_only=True) as store:
            assert len(store.identities()) == 1
    finally:
        worker.kill()


def test_a_payload_that_is_no_picture_is_rejected_and_the_worker_goes_on(worker: WorkerProcess) -> None:
    with agent(worker.ready["zmq"]) as gateway:
        gateway.send(HELLO)
        gateway.until(Welcome)
        gateway.send(*frame(1, b"no jpeg at all"))
        assert gateway.until(Reject).reason is RejectReason.BAD_PAYLOAD
        gateway.send(*frame(2, jpeg()))
        assert gateway.until(Result).seq == 2


def test_a_worker_without_a_file_says_what_to_write_and_exits_2() -> None:
    command = [sys.executable, "-m", "nearfar", "cloud"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "worker.yaml" in done.stderr


def test_records_of_a_store_that_is_not_there_exit_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nearfar", "records", "--store", f"sqlite:///{tmp_path}/none.db"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "no record store" in done.stderr
