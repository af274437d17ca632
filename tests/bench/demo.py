"""The demo as a benchmark: worker, bad link and agent on this machine, every promise judged.

Needs the clip and the model in `.assets` (`make demo` or `python -m nearfar.assets .assets` fetches them).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.report import Report, run


def measure(report: Report, _arguments: argparse.Namespace) -> None:
    """One run of `nearfar demo` (44 s; there is no shorter one)."""
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [sys.executable, "-m", "nearfar", "demo", "--out", f"{out}/run", "--assets", ".assets"],
            capture_output=True,
            text=True,
            check=False,
        )
        verdict = Path(out, "run/verdict.json")
        if not verdict.exists():
            sys.exit(f"the demo did not end with a verdict:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        for check in json.loads(verdict.read_text()):
            report.bars[check["promise"]] = {"want": check["want"], "got": check["got"], "ok": check["held"]}
        summary = json.loads(Path(out, "run/summary.json").read_text())
    report.figures = {
        name: summary[name] for name in ("frames", "shares", "latency_ms", "late_far", "far", "near")
    }
    report.figures["outbox"] = {
        name: summary["outbox"][name]
        for name in ("committed", "acked", "commit_p99_us", "flash_bytes_written")
    }


if __name__ == "__main__":
    run("demo", measure)
