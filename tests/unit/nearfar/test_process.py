"""What a command does as a process: output that cannot be written, and signals in every state."""

import json
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


WAITER = """
import signal, sys
from nearfar import process

def say(word):  # in one write, since two threads speak
    sys.stdout.write(word + "\\n")
    sys.stdout.flush()

stop = process.stop_on_signals(lambda: say("called"))
process.ready(address="127.0.0.1:1")
stop.wait(30)
say("stopping")
while "stubborn" in sys.argv:
    signal.pause()
"""


@pytest.fixture
def start():
    children = []

    def run(*arguments):
        command = [sys.executable, "-c", WAITER, *arguments]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield run
    for child in children:
        child.kill()
        child.communicate()


def test_the_ready_line_is_one_json_object_and_the_first_signal_stops_in_order(start):
    child = start()
    assert json.loads(child.stdout.readline()) == {"ready": True, "address": "127.0.0.1:1"}
    began = time.monotonic()
    child.terminate()
    out, err = child.communicate(timeout=10)
    assert {"called", "stopping"} >= set(out.split()) >= {"stopping"}
    assert (child.returncode, err) == (0, "")
    assert time.monotonic() - began < 5


def test_a_second_signal_ends_a_process_that_will_not_stop(start):
    child = start("stubborn")
    child.stdout.readline()
    child.terminate()
    assert {child.stdout.readline().strip() for _ in range(2)} == {"called", "stopping"}

    def ended():  # a repeat in the same breath is the same wish: only a later one counts
        child.terminate()
        return child.poll() is not None

    eventually(ended, 10, "the end by a second signal")
    assert child.returncode == 128 + 15
    assert "second signal" in child.stderr.read()
