"""`nearfar cloud --explain`: what is measured, and what follows from it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cloud.models.cost_table import Cell, advice, queue_bound
from cloud.scheduling.batch_rule import BatchRule
from nearfar.cli.main import run
from tests.support.models import COLOURS, write_yolox

WORKER = """\
version: 1
state_dir: {folder}/state
listen: {{zmq: {{address: "127.0.0.1:0"}}}}
threads: 4
models:
  quick: {{detector: {{kind: synthetic, delay: 4ms, per_frame: 1ms}}, instances: 2, batch: {{max: 4, wait: 2ms}}}}
  slow: {{detector: {{kind: synthetic, delay: 8ms}}}}
default_model: quick
"""


def cell(instances: int, batch: int, run_ms: int) -> Cell:
    return Cell(
        instances=instances,
        batch=batch,
        run_us=run_ms * 1000,
        frames_per_s=instances * batch * 1000 / run_ms,
    )


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    path = tmp_path / "worker.yaml"
    path.write_text(WORKER.format(folder=tmp_path))
    return path


def test_the_table_has_every_size_on_every_number_of_instances_and_what_was_decided(
    worker: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloud.models.cost_table._CELL_US", 20_000)
    assert run(["cloud", str(worker), "--explain"]) == 0
    said = capsys.readouterr().out
    rows = [line.split()[:2] for line in said.splitlines() if line.strip()[:1].isdigit()]
    quick = [[str(i), str(b)] for i in (1, 2) for b in (1, 2, 4, 8)]
    assert rows == quick + [["1", str(b)] for b in (1, 2, 4, 8)]
    assert "threads: 4 to share, 1 of them decode ahead" in said
    assert "decided: 2 × 1 threads, runs of up to 4 frames, waiting 2ms for company" in said
    assert "each frame runs alone" in said
    assert not (worker.parent / "state").exists(), "nothing is served, so nothing is kept"


def test_engine_processes_multiply_the_instances_that_are_measured_and_decided(
    worker: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloud.models.cost_table._CELL_US", 20_000)
    assert run(["cloud", str(worker), "--explain", "--processes", "2"]) == 0
    said = capsys.readouterr().out
    assert "engine processes: 2" in said
    assert "decided: 4 × 1 threads, runs of up to 4 frames" in said
    assert "decided: 2 × 1 threads, each frame runs alone" in said


def test_as_json_it_has_the_same_numbers(
    worker: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloud.models.cost_table._CELL_US", 20_000)
    assert run(["cloud", str(worker), "--explain", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    quick = told["models"]["quick"]
    assert quick["batch"] == {"max": 4, "wait_us": 2000}
    costs = {(r["instances"], r["batch"]): r["run_us"] for r in quick["runs"]}
    assert costs[1, 1] >= 4000
    assert costs[1, 8] >= 11_000
    assert told["threads"]["budget"] == 4


def test_json_alone_says_what_it_goes_with(worker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cloud", str(worker), "--json"]) == 2
    assert "--json goes with --explain" in capsys.readouterr().err


def test_a_batch_the_model_cannot_run_is_refused_in_words(
    worker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cloud", str(worker), "--explain", "--set", "models.quick.batch.max=65"]) == 2
    assert "models.quick.batch.max" in capsys.readouterr().err


def test_what_would_carry_more_in_engine_processes_is_told_for_all_of_them_together() -> None:
    cells = [cell(1, 1, 10), cell(2, 1, 10), cell(4, 1, 40)]
    assert advice(cells, BatchRule(), instances=4, processes=2).startswith(
        "processes × instances = 2 would carry 2.00"
    )


def test_as_many_frames_may_wait_as_are_done_within_the_budget() -> None:
    assert queue_bound([cell(1, 1, 20)], BatchRule(), instances=1) == 4
    assert queue_bound([cell(2, 1, 20)], BatchRule(), instances=2) == 8
    assert queue_bound([cell(1, 1, 20), cell(1, 4, 30)], BatchRule(max=4), instances=1) == 8
    assert queue_bound([cell(1, 1, 120)], BatchRule(), instances=1) == 0


def test_what_carries_clearly_more_is_advised_and_nothing_that_is_too_slow() -> None:
    cells = [cell(1, 1, 10), cell(1, 4, 20), cell(1, 8, 60)]
    assert advice(cells, BatchRule(), instances=1).startswith(
        "batch: {max: 4} would carry 2.00 times as much"
    )
    assert advice(cells, BatchRule(max=4), instances=1) == ""
    side_by_side = [cell(1, 1, 10), cell(2, 1, 30)]
    assert advice(side_by_side, BatchRule(), instances=2).startswith("instances: 1 would carry 1.50")


@pytest.mark.parametrize("explain", [["--explain"], []])
def test_batches_of_a_file_that_takes_one_picture_are_refused_at_the_start_and_the_dimension_is_named(
    worker: Path, explain: list[str]
) -> None:
    model = write_yolox(worker.parent / "frozen.onnx", frozen=(64, 64))
    detector = {"kind": "yolox", "model": str(model), "input": "64x64", "labels": list(COLOURS)}
    sets = [f"models.quick.detector={json.dumps(detector)}", "models.quick.instances=1"]
    command = [sys.executable, "-m", "nearfar", "cloud", str(worker), *explain]
    ended = subprocess.run(
        [*command, *(word for each in sets for word in ("--set", each))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "models.quick.batch.max: 4 pictures at once" in ended.stderr
    assert "images float32 [1, 3, 64, 64]: its first dimension, the batch, is fixed at 1" in ended.stderr


def test_many_instances_are_measured_by_doubling_and_what_is_done_is_said_meanwhile(
    worker: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloud.models.cost_table._CELL_US", 5_000)
    sets = ["--set", "models.quick.instances=12", "--set", "models.quick.batch=null", "--set", "threads=32"]
    assert run(["cloud", str(worker), "--explain", *sets]) == 0
    told = capsys.readouterr()
    counts = [int(line.split()[0]) for line in told.out.splitlines() if line.strip()[:1].isdigit()]
    assert sorted(set(counts)) == [1, 2, 4, 8, 12]
    assert "model quick: loading instance 1 of 12" in told.err


def test_once_its_time_is_over_only_what_the_file_says_is_measured(
    worker: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloud.models.cost_table.MEASURE_US", 0)
    assert run(["cloud", str(worker), "--explain", "--json"]) == 0
    quick = json.loads(capsys.readouterr().out)["models"]["quick"]
    assert [(r["instances"], r["batch"]) for r in quick["runs"]] == [(2, 4)]
    assert quick["left_out"] == 7
