"""docs/simple-clients.md is true: its programs run as they stand, against `nearfar cloud` on its configuration."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.support.workers import WorkerProcess

PAGE = (Path(__file__).parents[2] / "docs" / "simple-clients.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
SETS = ("listen.grpc={address: '127.0.0.1:0', reflection: true}",)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    made = WorkerProcess(tmp_path_factory.mktemp("worker"), sets=SETS)
    yield made
    made.kill()


def run(program: str, worker: WorkerProcess, folder: Path) -> str:
    picture = folder / "picture.jpg"
    cv2.imwrite(str(picture), np.full((48, 64, 3), 90, np.uint8))
    address = worker.ready["grpc"].removeprefix("grpc://")
    done = subprocess.run(
        [sys.executable, "-c", program, address, str(picture)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client_of_the_page_prints_a_line_for_each_object(worker: WorkerProcess, tmp_path: Path) -> None:
    lines = run(PROGRAMS[0], worker, tmp_path).splitlines()
    assert len(lines) == 2
    assert all(re.fullmatch(r"thing 0\.\d+( \d+\.\d+){4}", line) for line in lines)


def test_the_client_without_the_contract_lists_the_services_and_asks(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    said = run(PROGRAMS[1], worker, tmp_path)
    assert "nearfar.v1.Inference\n" in said
    assert said.count("x2_px:") == 2
