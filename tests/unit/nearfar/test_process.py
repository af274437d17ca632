"""What a command does as a process: output that cannot be written, and signals in every state."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cloud.store.records import open_store
from nearfar.cli import main as command_line
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Detections, Record, Status
from tests.support.eventually import eventually
from tests.support.rig import free_port

COMMAND = [sys.executable, "-m", "nearfar"]
SLOW_WORKER = """\
version: 1
state_dir: {root}
listen: {{zmq: {{address: "127.0.0.1:0"}}, http: {{address: "127.0.0.1:{port}"}}}}
models: {{slow: {{detector: {{kind: synthetic, delay: 20s}}, warm_up: 3}}}}
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["list", "schema", "--help", "--version"])
def test_output_to_a_full_disk_is_told_in_one_line(command, unbuffered):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 1
    assert done.stderr == "error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_is_nobody_s_fault(unbuffered):
    running = subprocess.Popen(
        [*COMMAND, "schema"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()  # as `| head` does, before a word was said
    with running.stderr:
        assert running.stderr.read() == ""
    assert running.wait(20) == 1


def test_a_command_whose_output_is_closed_does_its_work():
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" -m nearfar list >&-', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


SLOW_AGENT = """\
version: 1
state_dir: {root}
http: {{address: "127.0.0.1:{port}"}}
streams: {{cam: {{source: {{kind: synthetic}}}}}}
near: {{detector: {{kind: synthetic, delay: 20s}}}}
"""


@pytest.mark.alone
@pytest.mark.parametrize("command", ["cloud", "edge"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_whoever_is_still_warming_up_stops_within_two_seconds(command, number, tmp_path):
    port = free_port()
    with (tmp_path / "log").open("w") as log:
        text = {"cloud": SLOW_WORKER, "edge": SLOW_AGENT}[command].format(root=tmp_path, port=port)
        (tmp_path / "w.yaml").write_text(text)
        worker = subprocess.Popen(
            [*COMMAND, command, str(tmp_path / "w.yaml")], stdout=subprocess.PIPE, stderr=log
        )
        try:
            health = [*COMMAND, "health", f"http://127.0.0.1:{port}/healthz"]
            eventually(
                lambda: subprocess.run(health, capture_output=True, check=False).returncode == 0,
                20.0,
                "a process that is alive and not ready",
            )
            begun_s = time.monotonic()
            worker.send_signal(number)
            assert worker.wait(10) == 0
            assert time.monotonic() - begun_s < 2.0
        finally:
            worker.kill()
            out, _ = worker.communicate()
    assert out == b"", "it never said that it was ready"


def test_a_hang_up_that_is_ignored_from_the_start_stays_ignored():
    """`nohup nearfar cloud … &` survives its terminal."""
    code = (
        "import signal, os, time\n"
        "from nearfar.process import stop_on_signals\n"
        "stop = stop_on_signals()\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "early = stop.wait(0.3)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "print(early, stop.wait(5))\n"
    )
    done = subprocess.run(
        ["nohup", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout == "False True\n", done.stderr


@pytest.mark.parametrize("shape", [[], ["--json"]], ids=["table", "json"])
def test_a_damaged_record_store_is_told_in_words(shape, tmp_path, capsys):
    path = tmp_path / "records.db"
    far = [
        Record(
            id=FrameId("gw", bytes(16), "door", seq),
            answered_by=AnsweredBy.FAR,
            status=Status.OK,
            detections=Detections.empty(),
        )
        for seq in range(1, 2000)
    ]
    with open_store(f"sqlite:///{path}") as store:
        store.commit(now_unix_us=1, far=far)
    data = bytearray(path.read_bytes())
    data[len(data) // 3 : -4096] = b"\xa5" * (len(data) - len(data) // 3 - 4096)
    path.write_bytes(data)
    assert command_line.run(["records", "--store", f"sqlite:///{path}", *shape]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert str(path) in told
    assert "Traceback" not in told
