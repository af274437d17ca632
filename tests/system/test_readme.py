"""The README is true: every shell block runs, and the YAML is a pipeline. What all pages keep is in unit/test_docs."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from edge.config.pipeline import PipelineConfig
from pipelines.document import Document

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PRIVILEGED = "<!-- privileged -->"
# `make test` is what runs this very test.
RUNS_THIS = {"make test\n"}
TRIES = {"make demo\n": 2}
"""The demo judges the machine as well: half a second without a core costs it its 99 % on time."""


def blocks(language: str) -> list[str]:
    """Fenced blocks of `language`, without those a privileged mark stands before."""
    pattern = re.compile(rf"(?P<before>[^\n]*)\n+```{language}\n(?P<text>.*?)```", re.DOTALL)
    return [m["text"] for m in pattern.finditer(README) if PRIVILEGED not in m["before"]]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files git knows, as a newcomer has them, with this environment as `.venv`."""
    folder = tmp_path / "nearfar"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    if (ROOT / ".assets").is_dir():
        shutil.copytree(ROOT / ".assets", folder / ".assets")
    (folder / ".venv").symlink_to(sys.prefix)
    (Path(sys.prefix) / ".demo").touch()  # this environment holds what `make demo` would install
    return folder


@pytest.mark.timeout(400)
@pytest.mark.parametrize("block", [b for b in blocks("sh") if b not in RUNS_THIS])
def test_every_shell_block_of_the_readme_runs(block: str, clone: Path):
    # The rehearsal uses fixed places in /tmp so that it reads well; here each run gets its own.
    script = block.replace("/tmp/nearfar-", f"{clone.parent}/nearfar-")  # noqa: S108
    for _ in range(TRIES.get(block, 1)):
        code, said = ran(script, clone)
        if code == 0:
            return
    pytest.fail(f"{script}\n{said[-3000:]}")


def ran(script: str, clone: Path) -> tuple[int, str]:
    """How a script ended in the clone, and what it said."""
    output = (clone.parent / "output").open("w+")
    shell = subprocess.Popen(
        ["bash", "-e", "-c", script],
        cwd=clone,
        env={k: v for k, v in os.environ.items() if k != "MAKEFLAGS"},
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        code = shell.wait(180)
    finally:  # a block that stops half-way leaves its background jobs behind
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        output.close()
    return code, (clone.parent / "output").read_text()


def test_the_yaml_of_the_readme_is_a_pipeline(tmp_path: Path):
    (block,) = blocks("yaml")
    path = tmp_path / "pipeline.yaml"
    path.write_text(block)
    config = Document.read(path).validate(PipelineConfig)
    assert config.deadline == 100_000
    assert len(yaml.safe_load(block)) > 5
