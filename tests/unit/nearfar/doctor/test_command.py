"""`nearfar doctor`: one line a layer, an exit code, and never more than 15 s."""

import json
import socket
import subprocess
import sys
import time

import pytest

from nearfar.cli import main as command_line
from tests.support.patients import listening
from tests.support.rig import free_port
from tests.support.workers import service


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


def test_a_doctor_given_a_worker_s_file_says_what_it_wants(tmp_path, capsys):
    file = tmp_path / "w.yaml"
    file.write_text("version: 1\nmodels: {thing: {detector: {kind: synthetic}}}\n")
    assert command_line.run(["doctor", str(file)]) == 2
    assert "is a worker's file; a doctor examines the pipeline of a gateway" in capsys.readouterr().err
