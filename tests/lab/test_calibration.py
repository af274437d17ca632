"""Real models on a real clip: near misses what it should, and more bytes show more.

YOLOX@224 near against YOLOX@512 far on persons of vtest.avi. Needs ../shared/data; `make lab` runs it.
"""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from nearfar.cli.main import run
from tests.support.val128 import SHARED

MODEL = SHARED / "data/models/yolox_nano_dyn.onnx"
CLIP = SHARED / "data/video/vtest.avi"
NOISE = 0.03
"""Of an accuracy over so few pictures."""

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared"),
    pytest.mark.timeout(300),
]

RECIPE = f"""\
version: 1
labels: [person]
streams:
  hall: {{source: {{kind: file, path: {CLIP}}}}}
near:
  detector: {{kind: yolox, model: {MODEL}, input: 224x224, min_score: 0.35}}   # small
links:
  lte: {{url: "zmq://127.0.0.1:7440"}}
scheduler:
  ladder:
    - {{quality: 80, scale: 1.0}}
    - {{quality: 50, scale: 0.75}}
    - {{quality: 20, scale: 0.75}}
    - {{quality: 20, scale: 0.5}}
"""
WORKER = f"""\
version: 1
listen: {{zmq: {{address: "127.0.0.1:0"}}}}
models:
  people: {{detector: {{kind: yolox, model: {MODEL}, input: 512x512, min_score: 0.35, threads: 2}}}}
"""


def test_near_is_worse_than_far_and_a_rung_is_better_the_more_it_weighs(tmp_path: Path, capsys) -> None:
    (tmp_path / "hall.yaml").write_text(RECIPE)
    (tmp_path / "worker.yaml").write_text(WORKER)
    arguments = ["calibrate", str(tmp_path / "hall.yaml"), "--worker", str(tmp_path / "worker.yaml")]
    arguments += ["--clip", str(CLIP), "--frames", "53", "--near-input", "160x160", "--json", "-"]
    assert run(arguments) in (0, None)
    found = json.loads(capsys.readouterr().out)
    assert found["frames"] == 53
    assert 0.72 < found["near"]["accuracy"] < 0.88
    assert 0.5 < found["smaller"][0]["accuracy"] < found["near"]["accuracy"]
    rungs = found["rungs"]
    sizes = [rung["bytes_mean"] for rung in rungs]
    assert sizes == sorted(sizes, reverse=True)
    accuracies = [rung["accuracy"] for rung in rungs]
    for dearer, cheaper in pairwise(accuracies):
        assert dearer > cheaper - NOISE
    assert accuracies[0] > 0.95
    text = (tmp_path / "hall.yaml").read_text()
    assert f"accuracy: {round(found['near']['accuracy'], 3)}" in text
    assert "# small" in text
