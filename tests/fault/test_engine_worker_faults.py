"""Whole workers whose engine processes are killed, stopped or asked to stop, and the agents that live with it."""

import os
import signal
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from cloud.store.records import open_store
from pipelines.codecs.jpeg import JpegCodec
from protos.wire.bulk import Ack
from protos.wire.live import Result
from protos.wire.session import Ping, Pong, Welcome
from tests.support.agents import HELLO, agent, frame
from tests.support.engine_detectors import engine_processes, is_gone, picture
from tests.support.eventually import eventually
from tests.support.rig import rig
from tests.support.workers import WorkerProcess


def page(worker: WorkerProcess, path: str) -> str:
    try:
        with urllib.request.urlopen(worker.ready["http"] + path, timeout=5) as reply:  # noqa: S310 - our own http address
            return str(reply.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode()}"


@pytest.fixture
def start(tmp_path: Path):
    made: list[WorkerProcess] = []

    def begin(*sets: str, delay: str = "10ms") -> WorkerProcess:
        made.append(WorkerProcess(tmp_path / "worker", delay=delay, sets=sets))
        return made[-1]

    yield begin
    for worker in made:
        worker.kill()


def body() -> tuple[bytes, Any]:
    return JpegCodec().encode(picture(), quality=80)


def test_a_worker_says_which_engines_it_has_and_shows_them(start):
    worker = start("processes=2")
    pids = worker.ready["engines"]
    assert sorted(pids) == sorted(p.pid for p in engine_processes(worker.process.pid))
    eventually(lambda: page(worker, "/readyz") == "ready\n", 60.0)
    shown = page(worker, "/metrics")
    for engine, pid in enumerate(pids):
        assert f'nearfar_worker_engine_info{{engine="{engine}",pid="{pid}",state="ready"}} 1.0' in shown
        assert f'nearfar_worker_engine_ready{{engine="{engine}"}} 1.0' in shown
        assert f'nearfar_worker_engine_restarts_total{{engine="{engine}"}} 0.0' in shown
    os.kill(pids[0], signal.SIGKILL)
    eventually(
        lambda: page(worker, "/readyz").startswith("ready, degraded: engine 0 was killed (SIGKILL)"),
        what="words about it",
    )
    eventually(lambda: page(worker, "/readyz") == "ready\n", 60.0)
    assert 'nearfar_worker_engine_restarts_total{engine="0"} 1.0' in page(worker, "/metrics")
    os.kill(pids[1], signal.SIGKILL)
    assert worker.terminate() == 0


def test_a_worker_whose_only_engine_is_gone_is_not_ready_and_says_why(start):
    worker = start("processes=1")
    eventually(lambda: page(worker, "/readyz") == "ready\n", 60.0)
    os.kill(worker.ready["engines"][0], signal.SIGKILL)
    eventually(
        lambda: page(worker, "/readyz").startswith("503 engine 0 was killed (SIGKILL)"), what="words about it"
    )
    eventually(lambda: page(worker, "/readyz") == "ready\n", 60.0)


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_no_engine_outlives_a_worker_that_is_killed(start, stopped):
    worker = start("processes=2")
    pids = worker.ready["engines"]
    if stopped:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
    worker.process.kill()
    worker.process.wait(10)
    eventually(lambda: all(map(is_gone, pids)), 5.0, "the end of its engines")


def test_an_engine_holds_no_port_and_no_file_of_its_worker(start):
    worker = start("processes=1")
    process = psutil.Process(worker.ready["engines"][0])
    assert process.net_connections("inet") == []
    assert [f.path for f in process.open_files() if "records.db" in f.path] == []


@pytest.mark.parametrize("whole_group", [False, True])
def test_a_drain_under_load_finishes_acks_and_keeps_what_was_admitted(start, whole_group):
    worker = start("processes=2", delay="100ms")
    data, encoding = body()
    frames = 6
    with agent(worker.ready["zmq"]) as gateway:
        gateway.send(HELLO)
        gateway.until(Welcome)
        for seq in range(1, frames + 1):
            head, its_body = frame(seq, data)
            gateway.send(replace(head, encoding=encoding), its_body)
        first = gateway.until(Result)
        if whole_group:  # as a terminal and systemd do
            for pid in worker.ready["engines"]:
                os.kill(pid, signal.SIGTERM)
                os.kill(pid, signal.SIGINT)
        worker.process.terminate()
        acked: set[int] = set()
        answered = {first.seq}
        while len(acked) < frames:
            message = gateway.receive()
            if isinstance(message, Result):
                answered.add(message.seq)
            elif isinstance(message, Ack):
                acked |= {seq for r in message.records for seq in range(r.first, r.last + 1)}
        assert worker.process.wait(15.0) == 0
    assert answered == set(range(1, frames + 1))
    with open_store(worker.ready["store"], read_only=True) as store:
        assert len(store.identities()) == frames


@pytest.mark.alone
def test_a_worker_whose_engines_hang_ends_in_its_time(start):
    worker = start("processes=2", "drain=1s", "engine={hang_after: 1h}", delay="500ms")
    data, encoding = body()
    with agent(worker.ready["zmq"]) as gateway:
        gateway.send(HELLO)
        gateway.until(Welcome)
        head, its_body = frame(1, data)
        gateway.send(replace(head, encoding=encoding), its_body, Ping(nonce=1, sent_mono_us=0))
        gateway.until(Pong)  # so the frame has arrived
        for pid in worker.ready["engines"]:
            os.kill(pid, signal.SIGSTOP)
        worker.process.terminate()
        assert worker.process.wait(1.0 + 7.0) == 1, "a frame was left over"


@pytest.mark.alone
def test_an_agent_falls_back_near_while_the_engine_of_its_worker_is_away_and_comes_back(tmp_path: Path):
    """F06"""
    with rig(tmp_path) as r:
        r.worker_sets = ("processes=1",)
        worker = r.start_worker()
        r.start_agent()
        r.wait_answers("far", 20)
        for _ in range(2):
            before = len(r.answers)
            (engine,) = engine_processes(worker.popen.pid)
            engine.kill()
            near = r.wait_answers("near", 3, after=before)
            assert all(a["on_time"] for a in near)
            r.wait_far_on_time(after=len(r.answers), within_s=30.0)
        summary = r.stop_agent(within_s=15.0)
        assert summary["frames"]["missed"] == 0
        r.stop_worker()


@pytest.mark.alone
def test_an_agent_is_answered_near_while_the_engine_of_its_worker_hangs_and_far_again_after(tmp_path: Path):
    with rig(tmp_path) as r:
        r.worker_sets = ("processes=1", "engine={hang_after: 2s}")
        worker = r.start_worker()
        r.start_agent()
        r.wait_answers("far", 20)
        before = len(r.answers)
        (engine,) = engine_processes(worker.popen.pid)
        engine.suspend()
        near = r.wait_answers("near", 20, after=before)
        assert all(a["on_time"] for a in near)
        r.wait_far_on_time(after=len(r.answers), within_s=30.0)
        summary = r.stop_agent(within_s=15.0)
        assert summary["frames"]["missed"] == 0
        r.stop_worker()
