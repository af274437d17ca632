"""A file given to the wrong command is told in one line which command wants it."""

import pytest

from nearfar.cli import main as command_line

WORKER = (
    "version: 1\nlisten: {zmq: {address: '127.0.0.1:0'}}\nmodels: {thing: {detector: {kind: synthetic}}}\n"
)
PIPELINE = "version: 1\nstreams: {door: {source: {kind: synthetic}}}\nnear: {detector: {kind: synthetic}}\n"


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        ("edge", WORKER, "is a worker's file (it has listen, models); run: nearfar cloud"),
        ("cloud", PIPELINE, "is a gateway's pipeline (it has streams, near); run: nearfar edge"),
        ("doctor", WORKER, "is a worker's file; a doctor examines the pipeline of a gateway"),
    ],
)
def test_a_file_of_the_other_kind_is_told_in_one_line(tmp_path, capsys, command, text, words):
    file = tmp_path / "x.yaml"
    file.write_text(text)
    assert command_line.run([command, str(file)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {file} {words}")
    assert len(told.splitlines()) == 1


def test_a_pipeline_without_streams_is_checked_as_one(tmp_path, capsys):
    file = tmp_path / "x.yaml"
    file.write_text("version: 1\nnear: {detector: {kind: synthetic}}\n")
    assert command_line.run(["check", str(file)]) == 2
    assert "streams: is missing" in capsys.readouterr().err


def test_the_summary_of_a_file_names_its_folders_without_detours(tmp_path, capsys):
    file = tmp_path / "x.yaml"
    file.write_text(PIPELINE + "state_dir: a/../b/../gateway\n")
    assert command_line.run(["check", str(file)]) == 0
    assert f"in {tmp_path / 'gateway'}\n" in capsys.readouterr().out
    file.write_text(WORKER + "state_dir: a/../worker\n")
    assert command_line.run(["check", str(file)]) == 0
    assert f"sqlite:///{tmp_path / 'worker' / 'records.db'}\n" in capsys.readouterr().out
