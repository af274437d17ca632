"""The demo as a benchmark, over each kind of link: worker, bad link and agent on this machine, every promise judged.

Needs the clip and the model in `.assets` (`make demo` or `python -m nearfar.assets .assets` fetches them).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from edge.links.kinds import LINKS
from tests.bench.report import Report, run

FIGURES = ("frames", "shares", "latency_ms", "late_far", "far", "near")
OF_THE_OUTBOX = ("committed", "acked", "commit_p99_us", "flash_bytes_written")


def one_run(link: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The verdict and the summary of one demo of 44 s; there is no shorter one."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "nearfar", "demo", "--link", link]
        done = subprocess.run(
            [*command, "--out", f"{out}/run", "--assets", ".assets"],
            capture_output=True,
            text=True,
            check=False,
        )
        verdict = Path(out, "run/verdict.json")
        if not verdict.exists():
            sys.exit(f"the demo did not end with a verdict:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return json.loads(verdict.read_text()), json.loads(Path(out, "run/summary.json").read_text())


def measure(report: Report, _arguments: argparse.Namespace) -> None:
    """One demo over each kind of link."""
    for link in (kind.name for kind in LINKS):
        verdict, summary = one_run(link)
        for check in verdict:
            bar = {"want": check["want"], "got": check["got"], "ok": check["held"]}
            report.bars[f"{link}: {check['promise']}"] = bar
        report.figures[link] = {name: summary[name] for name in FIGURES}
        report.figures[link]["outbox"] = {name: summary["outbox"][name] for name in OF_THE_OUTBOX}


if __name__ == "__main__":
    run("demo", measure)
