"""A command that serves until it is stopped ends with 0 whenever that is, while it still loads included."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nearfar.start import runs_until_stopped

WORKER = """\
version: 1
state_dir: {root}
listen: {{zmq: {{address: "127.0.0.1:0"}}}}
models: {{any: {{detector: {{kind: synthetic}}}}}}
"""
PIPELINE = """\
version: 1
state_dir: {root}
streams: {{cam: {{source: {{kind: synthetic, fps: 5}}}}}}
near: {{detector: {{kind: synthetic}}}}
sinks: [{{kind: stdout}}]
"""
LATE = ("cloud.config", "edge.config.pipeline", "cv2")  # the command hears signals itself by then
FILES = {"cloud": WORKER, "edge": PIPELINE}


@pytest.mark.parametrize(
    ("command", "moment", "number"),
    [
        ("cloud", "click", signal.SIGTERM),
        ("cloud", "pydantic", signal.SIGINT),
        ("cloud", "cloud.config", signal.SIGTERM),
        ("edge", "pydantic", signal.SIGTERM),
        ("edge", "cv2", signal.SIGTERM),
    ],
)
def test_whoever_is_stopped_while_it_loads_ends_with_0_and_says_so(
    command: str, moment: str, number: int, tmp_path: Path
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(FILES[command].format(root=tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "nearfar", command, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.rpartition("|")[2].strip() == moment:
            break
    else:
        raise AssertionError(f"{moment} was never loaded")
    os.kill(process.pid, number)
    out, rest = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in rest
    assert "ready" not in out
    if moment not in LATE:
        assert rest.endswith("stopped before it had begun\n")


@pytest.mark.parametrize(
    ("line", "so"),
    [
        ("cloud worker.yaml", True),
        ("edge --frames 5 pipeline.yaml", True),
        ("relay 127.0.0.1:1", True),
        ("cloud worker.yaml --explain", False),
        ("cloud worker.yaml --deploy ray --write-config=-", False),
        ("edge --help", False),
        ("check edge", False),
        ("--version", False),
        ("", False),
    ],
)
def test_only_commands_that_serve_end_with_0_before_they_are_done(line: str, so: bool) -> None:
    assert runs_until_stopped(line.split()) is so
