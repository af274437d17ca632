"""`nearfar check` reads of a model file whether it takes the batches it is to run, and loads no engine for it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nearfar.cli.main import run
from tests.support.models import COLOURS, write_yolox

WORKER = """\
version: 1
state_dir: {root}
listen: {{zmq: {{address: "127.0.0.1:0"}}}}
models:
  person: {{detector: {detector}{own}}}
batch: {{max: {most}}}
"""


def written(root: Path, *, most: int, own: str = "", frozen: bool = True) -> Path:
    model = write_yolox(root / "model.onnx", frozen=(64, 64) if frozen else None)
    detector = {"kind": "yolox", "model": str(model), "input": "64x64", "labels": list(COLOURS)}
    path = root / "worker.yaml"
    path.write_text(WORKER.format(root=root, detector=json.dumps(detector), own=own, most=most))
    return path


@pytest.mark.parametrize(
    ("most", "own", "key"), [(8, "", "batch.max"), (1, ", batch: {max: 4}", "models.person.batch.max")]
)
def test_batches_of_a_file_that_takes_one_picture_are_refused_with_its_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], most: int, own: str, key: str
) -> None:
    assert run(["check", str(written(tmp_path, most=most, own=own))]) == 2
    said = capsys.readouterr().err
    assert key in said
    assert "images float32 [1, 3, 64, 64]: its first dimension, the batch, is fixed at 1" in said
    assert "leave batch out" in said


@pytest.mark.parametrize(("most", "frozen"), [(1, True), (8, False)])
def test_a_file_that_takes_what_is_asked_is_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], most: int, frozen: bool
) -> None:
    assert run(["check", str(written(tmp_path, most=most, frozen=frozen))]) == 0, capsys.readouterr().err


def test_no_engine_is_loaded_for_it(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from nearfar.cli.main import run\n"
        f"assert run(['check', {str(written(tmp_path, most=8))!r}]) == 2\n"
        "assert 'onnxruntime' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
