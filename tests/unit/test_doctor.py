"""F27: the doctor names the layer that fails, and what to do about it. Each one fails for real here."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from cloud.listeners.zmq import ZmqListener
from edge.config import load_pipeline
from edge.identity import StateDir
from nearfar.cli import main as command_line
from nearfar.doctor import machine, network
from nearfar.doctor.bounded import LateError, within
from nearfar.doctor.examination import examine
from nearfar.doctor.far import name_beside
from nearfar.doctor.finding import Finding, Level
from nearfar.doctor.near import NearCost, check_cpu
from nearfar.relay import Relay
from protos.endpoint import Endpoint
from protos.wire.session import Error, RejectReason
from tests.support.endpoints import ScriptedEndpoint
from tests.support.models import write_other_model
from tests.support.rig import free_port
from tests.support.workers import clock_us, service

PIPELINE = """\
version: 1
agent: gw-17
state_dir: {root}/gateway
streams: {{door: {{source: {{kind: synthetic, size: 320x240, fps: 10}}}}}}
near: {{detector: {{kind: synthetic, delay: 5ms}}}}
links: {{lte: {{url: "{url}"}}}}
"""
BEHIND = ["protocol", "hello", "model", "rtt", "bandwidth", "deadline"]


class Patient:
    """A pipeline to be examined; `url` is its link."""

    def __init__(self, root: Path) -> None:
        self.file = root / "p.yaml"
        self._root = root

    def examined(self, *sets: str, url: str = "zmq://127.0.0.1:1") -> dict[str, Finding]:
        """Findings by layer."""
        self.file.write_text(PIPELINE.format(root=self._root, url=url))
        return {finding.layer: finding for finding in examine(load_pipeline(self.file, sets))}


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    return Patient(tmp_path)


@contextmanager
def listening(endpoint: Endpoint) -> Iterator[str]:
    """The URL of a ZeroMQ worker in this process."""
    listener = ZmqListener(endpoint, address="127.0.0.1:0", clock_us=clock_us)
    listener.start()
    try:
        yield listener.address.replace("tcp://", "zmq://")
    finally:
        listener.stop()


@contextmanager
def answering(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where every connection is given to `serve`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            while True:
                try:
                    line, _ = server.accept()
                except OSError:
                    return
                with line:
                    line.settimeout(5)
                    serve(line)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def failed(found: dict[str, Finding]) -> list[str]:
    return [layer for layer, finding in found.items() if finding.level is Level.FAIL]


def assert_not_checked(found: dict[str, Finding], layers: list[str], because: str) -> None:
    for layer in layers:
        assert found[layer].level is Level.SKIPPED, layer
        assert found[layer].words == f"not checked because {because} failed"


# -- a healthy one ------------------------------------------------------------------------------------------


def test_a_healthy_pipeline_is_all_well_and_leaves_no_record_behind(patient, tmp_path):
    with service(tmp_path / "worker") as (made, store), listening(made) as url:
        found = patient.examined(url=url)
        assert {layer: f.words for layer, f in found.items() if f.level is not Level.OK} == {}
        assert store.counts()["records"] == 0
        assert store.gaps() == []
    for layer in ("state_dir", "stream door", "near", "cpu", "dns", "tcp", *BEHIND):
        assert found[layer].level is Level.OK
    assert "10 frames/s" in found["stream door"].words
    assert "kB a frame × 10 frames/s need" in found["bandwidth"].words


def test_what_an_examined_gateway_had_on_disk_is_what_it_has_afterwards(patient, tmp_path):
    patient.examined()
    assert not (tmp_path / "gateway").exists()


# -- the way to the worker ----------------------------------------------------------------------------------


def test_a_name_nobody_knows_is_a_failure_of_dns(patient):
    found = patient.examined(url="zmq://worker.invalid:7440")
    assert failed(found) == ["dns"]
    assert "worker.invalid cannot be resolved" in found["dns"].words
    assert_not_checked(found, ["tcp", *BEHIND], "dns")


def test_a_port_where_nobody_listens_is_a_failure_of_tcp(patient):
    found = patient.examined(url=f"zmq://127.0.0.1:{free_port()}")
    assert failed(found) == ["tcp"]
    assert "connection refused" in found["tcp"].words
    assert "start the worker" in found["tcp"].advice
    assert_not_checked(found, BEHIND, "tcp")


def test_a_listener_that_never_answers_is_named(patient):
    """F07, F27."""

    def mute(line: socket.socket) -> None:
        while line.recv(100):
            pass

    with answering(mute) as port:
        found = patient.examined(url=f"zmq://127.0.0.1:{port}")
    assert failed(found) == ["protocol"]
    assert "says nothing" in found["protocol"].words
    assert_not_checked(found, BEHIND[1:], "protocol")


def _web(line: socket.socket) -> None:
    line.recv(1000)
    line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (_web, "a web server"),
        (lambda line: line.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "an SSH server"),
        (lambda line: line.sendall(b"\x16\x00hello"), "something that begins with 16 00 68"),
    ],
    ids=["web", "ssh", "unknown"],
)
def test_another_program_on_the_port_is_named(patient, serve, words):
    with answering(serve) as port:
        found = patient.examined(url=f"zmq://127.0.0.1:{port}")
    assert failed(found) == ["protocol"]
    assert (
        f"{words} answers on port {port}, not ZeroMQ" in found["protocol"].words
        or words in found["protocol"].words
    )


def test_a_grpc_port_under_a_zmq_url_is_told_how_to_be_written(patient):
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        found = patient.examined(url=f"zmq://127.0.0.1:{port}")
        right = network.check_answer(network.Address.of(f"grpc://127.0.0.1:{port}"), "127.0.0.1")
    finally:
        server.stop(0).wait()
    assert "gRPC (HTTP/2) answers" in found["protocol"].words
    assert f"write grpc://127.0.0.1:{port}" in found["protocol"].advice
    assert right.level is Level.OK


def test_a_zmq_port_under_a_grpc_url_is_told_how_to_be_written(tmp_path):
    with listening(ScriptedEndpoint()) as url:
        address = network.Address.of(url.replace("zmq://", "grpc://"))
        told = network.check_answer(address, "127.0.0.1")
    assert told.level is Level.FAIL
    assert f"write {url}" in told.advice


# -- the worker ---------------------------------------------------------------------------------------------


def test_a_worker_that_never_welcomes_is_a_failure_of_hello(patient, monkeypatch):
    monkeypatch.setattr("nearfar.doctor.far.WITHIN_S", 0.5)
    endpoint = ScriptedEndpoint()
    endpoint.silent = True
    with listening(endpoint) as url:
        found = patient.examined(url=url)
    assert failed(found) == ["hello"]
    assert "no welcome" in found["hello"].words
    assert_not_checked(found, BEHIND[2:], "hello")


def test_a_worker_without_the_model_is_a_failure_of_model_that_names_those_it_has(patient, tmp_path):
    with service(tmp_path / "worker") as (made, _), listening(made) as url:
        found = patient.examined("far.model=faces-640", url=url)
    assert failed(found) == ["model"]
    assert found["hello"].level is Level.OK
    assert "faces-640" in found["model"].words
    assert "it has synthetic" in found["model"].words
    assert_not_checked(found, BEHIND[3:], "model")


def test_a_worker_of_another_version_is_told_in_its_words(patient):
    endpoint = ScriptedEndpoint()
    endpoint.refusal = Error(reason=RejectReason.VERSION, text="this worker speaks protocol 9", retry=False)
    with listening(endpoint) as url:
        found = patient.examined(url=url)
    assert failed(found) == ["hello"]
    assert "speaks protocol 9" in found["hello"].words
    assert "same version" in found["hello"].advice


def test_a_way_that_is_too_long_and_too_narrow_is_warned_about_with_its_figures(patient, tmp_path):
    with service(tmp_path / "worker") as (made, _), listening(made) as url:
        relay = Relay("127.0.0.1:0", url.removeprefix("zmq://"))
        relay.start()
        try:
            relay.set(rtt_ms=150, rate_mbit=2)
            found = patient.examined(
                "streams.door.source.fps=1000",
                "scheduler.ladder=[{codec: jpeg, quality: 95}]",
                url=f"zmq://{relay.address}",
            )
        finally:
            relay.stop()
    assert failed(found) == []
    assert found["rtt"].level is Level.WARN
    assert "answered near" in found["rtt"].advice
    assert found["bandwidth"].level is Level.WARN
    assert found["deadline"].level is Level.WARN


# -- the gateway --------------------------------------------------------------------------------------------


def test_a_wrong_model_is_a_failure_of_near_and_leaves_cpu_unchecked(patient, tmp_path):
    wrong = write_other_model(tmp_path / "other.onnx")
    found = patient.examined(f"near.detector={{kind: centerface, model: {wrong}, input: 64x64}}")
    assert "near" in failed(found)
    assert found["cpu"].level is Level.SKIPPED


def test_a_missing_model_file_is_a_wrong_file(patient, capsys):
    patient.examined()
    code = command_line.run(
        [
            "doctor",
            str(patient.file),
            "--set",
            "near.detector={kind: centerface, model: no.onnx, input: 64x64}",
        ]
    )
    assert code == 2
    assert "no such file" in capsys.readouterr().err


def test_a_near_model_that_is_slower_than_the_deadline_fails(patient):
    found = patient.examined("near.detector.delay=60ms", "deadline=50ms")
    assert "near" in failed(found)
    assert "the deadline is 50 ms" in found["near"].words


def test_near_cost_times_frames_is_held_against_the_cores():
    cost = NearCost(p50_us=30_000, p95_us=40_000, threads=1, labels=())
    assert check_cpu(cost, fps=15, cores=2).level is Level.OK
    assert check_cpu(cost, fps=60, cores=2).level is Level.WARN
    assert "0.90 s of each second for 30 frames/s (1 cores here)" in check_cpu(cost, fps=30, cores=1).words
    assert check_cpu(cost, fps=30, cores=1).level is Level.WARN
    assert check_cpu(None, fps=30, cores=1).level is Level.SKIPPED


def test_the_quota_of_a_container_counts_as_cores(tmp_path):
    (tmp_path / "pod" / "app").mkdir(parents=True)
    (tmp_path / "pod" / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "pod" / "app" / "cpu.max").write_text("max 100000\n")
    assert machine.cores(tmp_path, own="/pod/app") == 0.5
    assert machine.cores(tmp_path, own="/other") >= 1


def test_a_camera_that_refuses_is_told_in_words_without_its_password(patient):
    url = f"rtsp://admin:secret@127.0.0.1:{free_port()}/cam"
    found = patient.examined(f"streams.door.source={{kind: camera, url: '{url}'}}")
    told = found["stream door"]
    assert told.level is Level.FAIL
    assert "refuses connections" in told.words
    assert "secret" not in told.words + told.advice
    assert found["cpu"].level is Level.SKIPPED


def test_a_state_dir_that_cannot_be_written_is_named(patient, tmp_path):
    (tmp_path / "file").write_text("")
    for wrong in ("/proc/nearfar", str(tmp_path / "file")):
        found = patient.examined(f"state_dir={wrong}")
        assert "state_dir" in failed(found)
        assert "--set state_dir=DIR" in found["state_dir"].advice


def test_a_disk_smaller_than_the_outbox_is_warned_about(patient):
    found = patient.examined("outbox.max_bytes=900TB")
    assert found["disk"].level is Level.WARN
    assert "outbox.max_bytes" in found["disk"].advice


def test_a_clock_that_starts_in_1970_is_warned_about_and_harms_no_deadline():
    told = machine.check_clock(12.0, synchronised=True)
    assert told.level is Level.WARN
    assert "1970" in told.words
    assert "no deadline depends on it" in told.words


def test_an_agent_that_runs_is_seen_and_keeps_its_lock(patient, tmp_path):
    held = StateDir(tmp_path / "gateway")
    try:
        found = patient.examined("http={address: '127.0.0.1:1'}")
        assert "one runs in" in found["agent"].words
        assert "http" not in found, "the page's port is the running agent's"
        assert machine.agent_runs(tmp_path / "gateway")
    finally:
        held.close()
    assert not machine.agent_runs(tmp_path / "gateway")


def test_a_page_whose_port_is_taken_fails(patient):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = patient.examined(f"http={{address: '127.0.0.1:{taken.getsockname()[1]}'}}")
    assert "http" in failed(found)


def test_labels_no_model_has_are_warned_about(patient):
    found = patient.examined("labels=[person]")
    assert found["labels"].level is Level.WARN
    assert "person" in found["labels"].words


def test_the_doctor_s_name_is_beside_the_agent_s_and_never_too_long():
    assert name_beside("gw-17") == "gw-17-doctor"
    assert len(name_beside("g" * 64)) == 63


# -- the command --------------------------------------------------------------------------------------------


def test_the_command_says_one_line_a_layer_and_exits_1_when_one_fails(patient, capsys):
    patient.examined()
    with pytest.raises(SystemExit) as ended:
        command_line.run(["doctor", str(patient.file)])
    assert ended.value.code == 1
    out = capsys.readouterr().out
    assert "\nFAIL tcp: 127.0.0.1 port 1: connection refused" in out
    assert "       -> start the worker there" in out
    assert out.splitlines()[-1] == "failed: tcp"


def test_as_json_it_is_one_object(patient, tmp_path, capsys):
    with service(tmp_path / "worker") as (made, _), listening(made) as url:
        patient.examined(url=url)
        with pytest.raises(SystemExit) as ended:
            command_line.run(["doctor", str(patient.file), "--json"])
    assert ended.value.code == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is True
    assert {"layer": "hello", "level": "ok", "words": told_words(told, "hello"), "advice": ""} in told[
        "findings"
    ]


def told_words(told, layer):
    return next(f["words"] for f in told["findings"] if f["layer"] == layer)


def test_check_points_to_the_doctor(patient, capsys):
    patient.examined()
    assert command_line.run(["check", str(patient.file)]) == 0
    assert f"nearfar doctor {patient.file}" in capsys.readouterr().out


def test_everything_hanging_at_once_takes_no_more_than_fifteen_seconds(patient):
    """A camera and a worker that take the connection and never say a word (F07, F28)."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        patient.examined(url=f"zmq://127.0.0.1:{free_port()}")
        begun_s = time.monotonic()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "nearfar", "doctor", str(patient.file)),
                *("--set", f"links.lte.url=zmq://127.0.0.1:{port}"),
                *("--set", f"streams.door.source={{kind: camera, url: 'rtsp://127.0.0.1:{port}/cam'}}"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        took_s = time.monotonic() - begun_s
    assert done.returncode == 1
    assert "FAIL stream door" in done.stdout
    assert "FAIL protocol" in done.stdout
    assert took_s < 15.0


def test_a_step_that_hangs_is_left_behind_and_named():
    release = threading.Event()
    with pytest.raises(LateError, match=r"the model gave no answer within 0\.05 s"):
        within(0.05, lambda: release.wait(10), "the model")
    release.set()


def test_a_model_that_takes_longer_than_a_doctor_waits_is_no_failure_and_is_stopped(patient, monkeypatch):
    """A slow gateway still starts: the agent waits for its model, a doctor does not."""
    monkeypatch.setattr("nearfar.doctor.near.RUN_WITHIN_S", 0.1)
    found = patient.examined("near.detector.delay=20s")
    assert found["near"].level is Level.WARN
    assert "gave no answer within 0.1 s" in found["near"].words
    assert found["cpu"].level is Level.SKIPPED


def test_layers_for_which_no_time_is_left_are_not_called_broken(patient, tmp_path, monkeypatch):
    monkeypatch.setattr("nearfar.doctor.examination.WITHIN_S", 1.5)
    with service(tmp_path / "worker") as (made, _), listening(made) as url:
        found = patient.examined(url=url)
    assert failed(found) == []
    assert "other layers took all the time" in found["hello"].words


def test_what_a_pipeline_does_not_have_is_not_examined(patient):
    found = patient.examined("links={}")
    assert failed(found) == []
    assert not {"dns", "tcp", *BEHIND} & set(found)
    alone = patient.examined("scheduler.policy=far_only", url=f"zmq://127.0.0.1:{free_port()}")
    assert not {"near", "cpu"} & set(alone)
