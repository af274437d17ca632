"""Files a simulation is given: bounded, of finite numbers, and what is wrong with them said without a wrong hint."""

import os
from pathlib import Path

import pytest

from nearfar.cli import main as command_line
from nearfar.simulation.accuracies import read_accuracies
from nearfar.simulation.link.traces import read_trace
from nearfar.simulation.text_file import MOST_BYTES
from pipelines.errors import DataFileError

RECIPE = str(Path(__file__).parents[4] / "pipelines" / "recipes" / "synthetic.yaml")
GOOD = "2.5\n3.5\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "link.trace"
    path.write_text(text)
    return path


@pytest.mark.parametrize("option", ["--trace", "--down", "--accuracies"])
def test_a_device_that_never_ends_is_not_read(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traces = [] if option == "--trace" else ["--trace", str(written(tmp_path, GOOD))]
    assert command_line.run(["simulate", RECIPE, *traces, option, "/dev/zero"]) == 2
    assert capsys.readouterr().err.startswith("/dev/zero: is not a regular file")


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(DataFileError, match="not a regular file"):
        read_trace(pipe)


def test_a_file_that_is_too_large_is_refused_with_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(DataFileError, match="larger than 16 MiB"):
        read_trace(path)
    with pytest.raises(DataFileError, match="larger than 16 MiB"):
        read_accuracies(path)


@pytest.mark.parametrize(
    "text",
    [
        "1e308\n1e308\n",
        "nan\n",
        "9" * 5000,
        "²\n",
        "time_s,rate_mbit\n0,1\n1,1e308\n",
        "time_s,rate_mbit,loss\n0,1,0\n1,1,2\n",
        '[{"t": 0, "up": {"rate_mbit": 1e308}}]',
        '[{"t": NaN, "up": {"rate_mbit": 1}}]',
        '[{"t": 0, "up": {"delay_ms": Infinity}}]',
        '[{"t": 0, "up": {"delay_ms": "long"}}]',
        '[{"t": 0, "up": {"loss": 1.5}}]',
        '[{"t": 0, "up": {"burst": 3}}]',
        '{"repeat_s": 1, "steps": [{"t": 0, "both": {"rate_mbit": 0}}]}',
        '{"repeat_s": 1, "steps": [{"t": 0}, {"t": 2}]}',
        f'[{{"t": {"9" * 5000}}}]',
    ],
)
def test_numbers_nothing_can_have_are_refused_in_words(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, text)
    assert command_line.run(["simulate", RECIPE, "--trace", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{path}:")
    assert "nearfar check" not in err, "which cannot read it"


def test_what_is_wrong_in_a_file_of_accuracies_is_not_sent_to_a_command_that_cannot_read_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"reference": [1e99]}')
    trace = written(tmp_path, GOOD)
    assert command_line.run(["simulate", RECIPE, "--trace", str(trace), "--accuracies", str(path)]) == 2
    err = capsys.readouterr().err
    assert str(path) in err
    assert "nearfar check" not in err


def test_whole_numbers_that_may_be_rates_are_said_to_be_taken_for_stamps(tmp_path: Path) -> None:
    path = written(tmp_path, "5\n")
    assert "taken for mahimahi stamps in ms" in read_trace(path).note
    assert "--format mbit" in read_trace(path).note
    assert read_trace(path, fmt="mahimahi").note == ""
    assert read_trace(path, fmt="mbit").note == ""
    assert read_trace(written(tmp_path, "10\n900\n60000\n")).note == ""
    assert read_trace(written(tmp_path, "5\n4\n")).note == ""


def test_the_sentence_goes_to_stderr_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, "5\n"))
    code = command_line.run(
        ["simulate", RECIPE, "--trace", path, "--trace", path, "--frames", "5", "--policy", "near_only"]
    )
    assert code == 0
    assert capsys.readouterr().err.count("taken for mahimahi stamps") == 1
