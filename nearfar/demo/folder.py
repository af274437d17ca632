"""The folder a demo writes: it is marked, and only what a demo wrote into a marked one is ever deleted."""

import shutil
from pathlib import Path

from nearfar.doctor.machine import agent_runs
from pipelines.errors import ConfigError

MARKER = ".nearfar-demo"
WRITTEN = (
    "agent.log",
    "frames.jsonl",
    "gateway",
    "link.jsonl",
    "phases.json",
    "pipeline.yaml",
    "report.html",
    "summary.json",
    "verdict.json",
    "worker",
    "worker.log",
    "worker.yaml",
    "worst",
)
"""Every name a demo leaves behind."""
_MARK = "`nearfar demo` wrote this folder; the next one with the same --out replaces what it wrote.\n"


def prepare(out: Path) -> None:
    """An empty place for a demo at `out`: made, or cleared of an earlier demo.

    ConfigError, and nothing touched, when something else lies there, another demo runs in it, or it cannot be written.
    """
    try:
        if not (out / MARKER).is_file() and out.exists() and any(out.iterdir()):
            raise ConfigError(
                f"{out} is not empty, and no demo wrote it (it holds no {MARKER}): nothing was touched; "
                "choose another folder with --out"
            )
        if agent_runs(out / "gateway"):
            raise ConfigError(f"a demo runs in {out}; wait for its end, or choose another folder with --out")
        out.mkdir(parents=True, exist_ok=True)
        (out / MARKER).write_text(_MARK, encoding="utf-8")
        for name in WRITTEN:
            _delete(out / name)
    except OSError as error:
        words = f"{error.filename or out} cannot be written: {error.strerror or error}"
        raise ConfigError(f"{words}; choose another folder with --out") from error


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
