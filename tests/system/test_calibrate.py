"""`nearfar calibrate` as people run it: real models on a painted clip, a real file that changes.

Near's small input squeezes what far at its full input sees, so near is worse and every rung lies between.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nearfar.cli.main import run
from tests.support.calibrated import write_clip
from tests.support.eventually import eventually
from tests.support.models import write_yolox
from tests.support.rig import Process, free_port

RECIPE = """\
# The hall.
version: 1
streams:
  hall: {source: {kind: camera, url: "rtsp://127.0.0.1:8554/cam"}}
near:
  detector: {kind: yolox, model: near.onnx, input: 64x32, labels: [blue, green, red]}   # small
far: {model: colours}
links:
  lte: {url: "zmq://127.0.0.1:7440"}
scheduler:
  ladder:
    - {quality: 90}
    - {quality: 10, scale: 0.35}
"""
WORKER = """\
version: 1
listen: {zmq: {address: "127.0.0.1:0"}}
models:
  colours: {detector: {kind: yolox, model: far.onnx, input: 256x128, labels: [blue, green, red]}}
"""


@dataclass(frozen=True)
class Bench:
    root: Path

    @property
    def recipe(self) -> Path:
        return self.root / "hall.yaml"

    def over(self, *more: str, clip: str = "hall.avi") -> list[str]:
        return ["calibrate", str(self.recipe), "--clip", str(self.root / clip), *more]

    def arguments(self, *more: str, clip: str = "hall.avi") -> list[str]:
        return self.over("--worker", str(self.root / "worker.yaml"), *more, clip=clip)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    write_yolox(tmp_path / "near.onnx")
    write_yolox(tmp_path / "far.onnx")
    write_clip(tmp_path / "hall.avi")
    (tmp_path / "hall.yaml").write_text(RECIPE)
    (tmp_path / "worker.yaml").write_text(WORKER)
    return Bench(tmp_path)


def test_what_was_measured_is_in_the_recipe_and_the_recipe_still_works(bench, capsys):
    assert run(bench.arguments()) in (0, None)
    said = capsys.readouterr().out
    assert "12 pictures" in said
    assert f"written to {bench.recipe}" in said
    text = bench.recipe.read_text()
    assert text.startswith("# The hall.\n")
    assert "# small" in text
    assert "# calibrated 20" in text
    assert run(["check", str(bench.recipe)]) in (0, None)
    capsys.readouterr()
    assert run(bench.arguments("--json", "-", "--dry-run")) in (0, None)
    found = json.loads(capsys.readouterr().out)
    assert found["near"]["accuracy"] < found["rungs"][1]["accuracy"] < found["rungs"][0]["accuracy"] <= 1
    assert found["rungs"][1]["bytes_mean"] < found["rungs"][0]["bytes_mean"]


def test_a_dry_run_shows_the_difference_and_changes_nothing(bench, capsys):
    assert run(bench.arguments("--dry-run", "--frames", "4")) in (0, None)
    said = capsys.readouterr().out
    assert "+    - {quality: 90, accuracy: " in said
    assert bench.recipe.read_text() == RECIPE


def test_json_alone_goes_to_stdout(bench):
    command = [sys.executable, "-m", "nearfar", *bench.arguments("--json", "-", "--every", "4")]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60, text=True)
    found = json.loads(done.stdout)
    assert found["frames"] == 3
    assert len(found["rungs"]) == 2
    assert "written to" in done.stderr


def test_a_ladder_is_suggested_where_only_the_camera_is_known(bench, capsys):
    bench.recipe.write_text(RECIPE.partition("scheduler:")[0])
    page, seen = bench.root / "plot.html", bench.root / "seen.json"
    more = ["--suggest", "--frames", "3", "--plot", str(page), "--accuracies", str(seen)]
    more += ["--json", str(bench.root / "found.json")]
    assert run(bench.arguments(*more)) in (0, None)
    figures = json.loads((bench.root / "found.json").read_text())["rungs"]
    capsys.readouterr()
    assert run(["check", str(bench.recipe)]) in (0, None)
    text = bench.recipe.read_text()
    ladder = [line for line in text.splitlines() if line.startswith("    - {codec: jpeg")]
    assert 1 <= len(ladder) <= 8
    assert len(ladder) == sum(rung["in_ladder"] for rung in figures) < len(figures)
    plot = page.read_text()
    assert "kB per frame" in plot
    assert 'script src="http' not in plot
    trace = bench.root / "up.mbit"
    trace.write_text("8.0\n" * 10)
    capsys.readouterr()
    simulate = ["simulate", str(bench.recipe), "--trace", str(trace), "--accuracies", str(seen)]
    assert run([*simulate, "--frames", "50", "--policy", "deadline", "--json", "-"]) in (0, None)
    assert json.loads(capsys.readouterr().out)["runs"][0]["captured"] == 50


def test_an_interrupted_calibration_leaves_the_recipe_as_it_was(bench):
    write_clip(bench.root / "long.avi", frames=2000)
    log = bench.root / "log"
    command = [sys.executable, "-m", "nearfar", *bench.arguments("--every", "1", clip="long.avi")]
    with (
        log.open("w") as out,
        subprocess.Popen(
            command, stdout=out, stderr=out, env=os.environ | {"PYTHONUNBUFFERED": "1"}
        ) as process,
    ):
        eventually(lambda: "calibrating" in log.read_text(), 60, "a first word on how far it is")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert bench.recipe.read_text() == RECIPE
    assert "Traceback" not in log.read_text()


@pytest.fixture
def worker(bench: Bench) -> Iterator[Process]:
    process = Process(
        ["cloud", str(bench.root / "worker.yaml"), "--set", f"state_dir={bench.root / 'w'}"],
        bench.root / "w.log",
    )
    try:
        yield process.wait_ready()
    finally:
        process.end()


def address(worker: Process) -> str:
    return str(worker.ready["zmq"]).replace("tcp://", "zmq://")


def test_a_running_worker_gives_the_figures_its_model_gives_here(bench, worker, capsys):
    assert run(bench.arguments("--json", "-", "--dry-run")) in (0, None)
    here = json.loads(capsys.readouterr().out)
    link = ["--link", "lte", "--set", f"links.lte.url={address(worker)}"]
    assert run(bench.over(*link, "--json", "-")) in (0, None)
    there = json.loads(capsys.readouterr().out)
    for name in ("accuracy", "bytes_mean", "bytes_p95"):
        assert [rung[name] for rung in there["rungs"]] == [rung[name] for rung in here["rungs"]]
    assert there["near"]["accuracy"] == here["near"]["accuracy"]
    assert there["boxes"] == here["boxes"]
    assert there["far"] == "colours (256x128, over lte)"
    assert "accuracy: " in bench.recipe.read_text()


def test_a_worker_that_serves_another_model_refuses_with_words(bench, worker, capsys):
    sets = ["--set", f"links.lte.url={address(worker)}", "--set", "far.model=people"]
    assert run(bench.over("--link", "lte", *sets)) == 2
    assert "refuses: " in capsys.readouterr().err
    assert bench.recipe.read_text() == RECIPE


def test_a_link_nobody_answers_on_is_said_and_the_recipe_stays(bench, capsys, monkeypatch):
    monkeypatch.setattr("nearfar.calibrate.live_far.WELCOME_WITHIN_S", 0.3)
    assert run(bench.over("--link", "lte", "--set", f"links.lte.url=zmq://127.0.0.1:{free_port()}")) == 1
    assert "no worker answers at zmq://127.0.0.1" in capsys.readouterr().err
    assert bench.recipe.read_text() == RECIPE


def test_who_answers_for_the_cloud_has_to_be_said(bench, capsys):
    assert run(bench.over()) == 2
    assert "say who answers for the cloud" in capsys.readouterr().err
    assert run(bench.over("--link", "cable")) == 2
    assert "no such link; there is lte" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        ({}, ["--clip", "nowhere.mp4"], "no such clip: nowhere.mp4"),
        ({"far.onnx": None}, [], "far.onnx"),
        ({"near.onnx": None}, [], "near.detector.model: no such file"),
        ({"worker.yaml": RECIPE}, [], "worker.yaml is a gateway's pipeline (it has streams"),
        ({"hall.yaml": WORKER}, [], "hall.yaml is a worker's file"),
        (
            {"worker.yaml": WORKER.replace("colours", "faces")},
            [],
            "asks for a model this worker does not serve",
        ),
        (
            {"worker.yaml": WORKER.replace("blue, green", "face, hand")},
            ["--set", "labels=[blue]"],
            "far reports none",
        ),
        ({"worker.yaml": WORKER.replace("[blue, green, red]", "[x, y, z]")}, [], "share no label"),
        ({"hall.yaml": RECIPE.replace("scale: 0.35", "scale: 1.5")}, [], "scheduler.ladder.1.scale"),
        ({}, ["--near-input", "50x30"], "multiples of 32"),
        (
            {},
            ["--near-input", "64x64"],
            "not smaller than near's 64x32; to try a larger near: --dry-run --set",
        ),
        ({}, ["--near-input", "small"], "WIDTHxHEIGHT"),
        ({}, ["--frames", "5", "--every", "2"], "choose one"),
        ({}, ["--plot", "/nowhere/plot.html"], "cannot write /nowhere/plot.html: there is no such folder"),
        ({}, ["--json", "/nowhere/found.json"], "no such folder"),
        ({}, ["--set", "scheduler.ladder.0.quality=30"], "write it there first"),
    ],
)
def test_what_cannot_be_calibrated_is_said_in_words_and_nothing_changes(bench, capsys, change, more, words):
    for name, text in change.items():
        if text is None:
            (bench.root / name).unlink()
        else:
            (bench.root / name).write_text(text)
    before = bench.recipe.read_text()
    assert run(bench.arguments(*more)) == 2
    said = capsys.readouterr()
    assert words in said.out + said.err
    assert bench.recipe.read_text() == before


def test_a_clip_in_which_nothing_is_seen_is_refused(bench, capsys):
    write_clip(bench.root / "empty.avi", seen=False)
    assert run(bench.arguments(clip="empty.avi")) == 2
    assert "far sees nothing in 12 pictures" in capsys.readouterr().err
    assert bench.recipe.read_text() == RECIPE
