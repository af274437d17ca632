"""`nearfar cloud` as its users meet it: a process, its ready line, its ZeroMQ port, its exit."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.store.records import open_store
from protos.wire.bulk import Ack
from protos.wire.live import Reject, Result
from protos.wire.session import Error, Ping, Pong, RejectReason, Welcome
from tests.support.agents import HELLO, agent, frame
from tests.support.grey_picture import grey_picture
from tests.support.ipv6 import need_ipv6
from tests.support.workers import WorkerProcess

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
            gateway.send(*frame(seq, grey_picture()))
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
        with agent(worker.ready["zmq"]) as gateway:
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
            gateway.send(*frame(1, grey_picture()), Ping(nonce=1, sent_mono_us=0))
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
        gateway.send(*frame(2, grey_picture()))
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
