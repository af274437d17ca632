"""The shape every benchmark reports in: figures, bars, and an exit code that says whether the bars held."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge.telemetry.facts import cpu_name
from pipelines.windows import quantile


@dataclass
class Report:
    """`figures` are what was measured; a bar is what had to be reached."""

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    bars: dict[str, dict[str, Any]] = field(default_factory=dict)
    words: str = ""
    """Markdown that stands between the bars and the figures."""

    def at_most(self, what: str, want: float, got: float) -> None:
        self.bars[what] = {"want": f"<= {want}", "got": round(got, 3), "ok": got <= want}

    def at_least(self, what: str, want: float, got: float) -> None:
        self.bars[what] = {"want": f">= {want}", "got": round(got, 3), "ok": got >= want}

    def below(self, what: str, want: float, got: float) -> None:
        self.bars[what] = {"want": f"< {want}", "got": round(got, 3), "ok": got < want}

    def above(self, what: str, want: float, got: float) -> None:
        self.bars[what] = {"want": f"> {want}", "got": round(got, 3), "ok": got > want}

    def not_measured(self, what: str, want: str, why: str) -> None:
        """A bar that was neither held nor missed; the report is not ok with it."""
        self.bars[what] = {"want": want, "got": why, "ok": None}

    @property
    def ok(self) -> bool:
        return all(bar["ok"] for bar in self.bars.values())

    def as_dict(self) -> dict[str, Any]:
        machine = {
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load_1min": round(os.getloadavg()[0], 2),
        }
        words = {"words": self.words} if self.words else {}
        return {"name": self.name, "machine": machine, "figures": self.figures, "bars": self.bars} | words


def summary_ms(values_us: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and the largest of µs values, in ms; nearest rank."""
    ordered = sorted(values_us)
    names = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
    return {name: round(quantile(ordered, q) / 1000, 3) for name, q in names} | {"n": len(ordered)}


def run(
    name: str,
    measure: Callable[[Report, argparse.Namespace], None],
    *,
    values: Mapping[str, str] | None = None,
    **flags: str,
) -> None:
    """The main of a benchmark: parse, measure, write one JSON object, exit 1 if a bar fails.

    `values` and `flags`: further options, with a value and without, each with its words.
    """
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{name}", description=measure.__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run in under 50 s")
    parser.add_argument("--json", default="-", help="where the report goes; - is stdout")
    for flag, words in flags.items():
        parser.add_argument(f"--{flag}", action="store_true", help=words)
    for option, words in (values or {}).items():
        parser.add_argument(f"--{option}", default="", help=words)
    arguments = parser.parse_args()
    report = Report(name)
    measure(report, arguments)
    text = json.dumps(report.as_dict(), indent=1, ensure_ascii=False)
    if arguments.json == "-":
        print(text)
    else:
        Path(arguments.json).write_text(text + "\n")
    sys.exit(0 if report.ok else 1)
