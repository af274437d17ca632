"""`nearfar cloud`: what its options reach."""

import threading
from pathlib import Path

import pytest

from nearfar.cli import main as command_line
from pipelines.errors import ConfigError

WORKER = """\
version: 1
listen: {zmq: {address: "127.0.0.1:0"}}
models: {rehearsal: {detector: {kind: synthetic}}}
processes: 1
"""


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The exit code, and what a worker's file had become when it was to start; nothing is started."""

    def worker(config):
        raise ConfigError(f"processes are {config.processes}")

    monkeypatch.setattr("cloud.worker.Worker", worker)
    monkeypatch.setattr("nearfar.process.stop_on_signals", threading.Event)
    (tmp_path / "worker.yaml").write_text(WORKER)

    def run(*options: str):
        return command_line.run(["cloud", str(tmp_path / "worker.yaml"), *options]), capsys.readouterr().err

    return run


def test_processes_are_those_of_the_option_else_of_the_file(begun):
    assert "processes are 1" in begun()[1]
    assert "processes are 3" in begun("--processes", "3")[1]
    assert "processes are 0" in begun("--processes", "0")[1]
    assert "processes are 3" in begun("--set", "processes=2", "--processes", "3")[1]


@pytest.mark.parametrize("count", ["-1", "65", "two"])
def test_a_count_that_cannot_be_is_refused_with_the_bounds(begun, count):
    code, said = begun("--processes", count)
    assert code == 2
    assert "--processes" in said
