"""`nearfar simulate` as people run it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nearfar.cli.main import run
from nearfar.simulation.accuracies import AccuraciesFile, Seen, SeenAtRung, write_accuracies

RECIPE = Path(__file__).parents[2] / "pipelines/recipes/synthetic.yaml"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Eight seconds of 12 Mbit/s, then four of almost nothing, looped."""
    path = tmp_path / "up.mbit"
    path.write_text("12.0\n" * 8 + "0.05\n" * 4)
    return path


def test_the_table_has_every_policy_and_what_could_be_had(trace, capsys):
    assert run(["simulate", str(RECIPE), "--trace", str(trace), "--frames", "400"]) in (0, None)
    said = capsys.readouterr().out
    rows = [line.split()[0] for line in said.splitlines() if line]
    for policy in ("deadline", "confidence", "threshold", "near_only", "far_only", "greedy", "oracle"):
        assert policy in rows
    assert "gap between near_only and oracle closed" in said


def test_json_alone_goes_to_stdout_and_is_the_same_for_the_same_seed(trace):
    command = [sys.executable, "-m", "nearfar", "simulate", str(RECIPE), "--trace", str(trace)]
    command += ["--frames", "200", "--policy", "deadline", "--policy", "near_only", "--json", "-"]
    first, second = (
        subprocess.run(command, capture_output=True, check=True, timeout=60).stdout for _ in "ab"
    )
    assert first == second
    runs = json.loads(first)["runs"]
    assert [run["policy"] for run in runs] == ["deadline", "near_only"]
    assert {run["captured"] for run in runs} == {200}


def test_the_plot_is_one_page_that_needs_no_network(trace, tmp_path):
    page = tmp_path / "plot.html"
    arguments = ["simulate", str(RECIPE), "--trace", str(trace), "--frames", "100", "--plot", str(page)]
    assert run([*arguments, "--policy", "deadline"]) in (0, None)
    text = page.read_text()
    assert "on-time F1" in text
    assert 'script src="http' not in text


def test_measured_accuracies_replace_the_constants_of_the_recipe(trace, tmp_path, capsys):
    file = tmp_path / "seen.json"
    write_accuracies(
        AccuraciesFile(
            reference=(2, 2, 4),
            near=Seen(true=(1, 1, 2), false=(0, 0, 0), run_us=(20_000,)),
            rungs=(
                SeenAtRung(
                    quality=50,
                    scale=1.0,
                    true=(2, 2, 4),
                    false=(0, 0, 0),
                    size_bytes=(9_000, 9_000, 9_000),
                    encode_us=(2_000,),
                ),
            ),
        ),
        file,
    )
    arguments = ["simulate", str(RECIPE), "--trace", str(trace), "--frames", "300", "--accuracies", str(file)]
    assert run([*arguments, "--policy", "near_only", "--policy", "oracle", "--json", "-"]) in (0, None)
    near, oracle = json.loads(capsys.readouterr().out)["runs"]
    assert near["f1"] == pytest.approx(2 * 4 / (2 * 4 + 4))
    assert near["f1"] < oracle["f1"] < 1.0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--trace", "nowhere"], 2, "no such trace"),
        (["--trace", "{trace}", "--accuracies", "nowhere"], 2, "no such file of accuracies"),
        (["--trace", "{trace}", "--accuracies", "{trace}"], 2, "Invalid JSON"),
        (["--trace", "{trace}", "--rtt", "30"], 2, "duration with its unit"),
        (["--trace", "{trace}", "--policy", "best"], 2, "is not one of"),
        ([], 2, "--trace"),
    ],
)
def test_what_cannot_be_simulated_is_said_in_words(trace, capsys, arguments, code, words):
    given = [word.replace("{trace}", str(trace)) for word in arguments]
    assert run(["simulate", str(RECIPE), *given]) == code
    said = capsys.readouterr()
    assert words in said.out + said.err
