"""F27: what the gateway itself may lack, and that an examination leaves it as it was."""

import errno
import os
import socket

import pytest

from edge.identity import StateDir
from nearfar.cli import main as command_line
from nearfar.doctor import machine
from nearfar.doctor.far import name_beside
from nearfar.doctor.finding import Level
from nearfar.doctor.near import NearCost, check_cpu
from pipelines.cores import cores
from tests.support.models import write_other_model
from tests.support.patients import BEHIND, answering, assert_not_checked, failed
from tests.support.rig import free_port


def test_what_an_examined_gateway_had_on_disk_is_what_it_has_afterwards(patient, tmp_path):
    patient.examined()
    assert not (tmp_path / "gateway").exists()


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
    assert check_cpu(cost, fps=15, cores=2, unseen=1).words.endswith("without 1 stream that gave no picture")


def test_the_quota_of_a_container_counts_as_cores(tmp_path):
    (tmp_path / "pod" / "app").mkdir(parents=True)
    (tmp_path / "pod" / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "pod" / "app" / "cpu.max").write_text("max 100000\n")
    assert cores(tmp_path, own="/pod/app") == 0.5
    assert cores(tmp_path, own="/other") >= 1


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
        assert_not_checked(found, ["disk", "fsync"], "state_dir")


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


def test_a_camera_the_running_agent_reads_is_not_opened_a_second_time(patient, tmp_path):
    """Some cameras take one reader: a second one would take the picture from the agent."""
    opened = []

    def serve(line):
        opened.append(line)

    held = StateDir(tmp_path / "gateway")
    try:
        with answering(serve) as port:
            camera = f"streams.door.source={{kind: camera, url: 'http://127.0.0.1:{port}/cam'}}"
            found = patient.examined(camera)
    finally:
        held.close()
    assert found["stream door"].level is Level.SKIPPED
    assert "the agent that runs reads this camera" in found["stream door"].words
    assert opened == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_to_be_emptied_and_not_to_be_replaced(patient, monkeypatch, number):
    def full(_folder):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(machine, "_written_s", full)
    assert patient.examined()["state_dir"].advice == "make room"


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


def test_a_model_that_takes_longer_than_a_doctor_waits_is_no_failure_and_is_stopped(patient, monkeypatch):
    """A slow gateway still starts: the agent waits for its model, a doctor does not."""
    monkeypatch.setattr("nearfar.doctor.near.RUN_WITHIN_S", 0.1)
    found = patient.examined("near.detector.delay=20s")
    assert found["near"].level is Level.WARN
    assert "gave no answer within 0.1 s" in found["near"].words
    assert found["cpu"].level is Level.SKIPPED


def test_what_a_pipeline_does_not_have_is_not_examined(patient):
    found = patient.examined("links={}")
    assert failed(found) == []
    assert not {"dns", "tcp", *BEHIND} & set(found)
    alone = patient.examined("scheduler.policy=far_only", url=f"zmq://127.0.0.1:{free_port()}")
    assert not {"near", "cpu"} & set(alone)


def test_the_smaller_near_input_is_tried_too_and_told_when_it_is_hardly_quicker(patient):
    slow = "near.detector.delay=40ms"
    found = patient.examined(slow, "near.smaller.input=160x120")
    assert found["near.smaller"].level is Level.OK
    assert "synthetic@160x120 runs in" in found["near.smaller"].words
    found = patient.examined(slow, "near.smaller.input=320x239")
    assert found["near.smaller"].level is Level.WARN
    assert "hardly quicker" in found["near.smaller"].words
    assert "near.smaller" not in patient.examined()
