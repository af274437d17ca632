"""Runs every benchmark and rewrites the tables of docs/benchmarks.md.

`scenarios` takes hours, root and a quiet machine, `simulate` an hour and recorded links: they run apart, and
`--scenarios RUNS` and `--simulate REPORT` only write their tables; `--write NAME REPORT` does so for any other.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BENCHMARKS = (
    "overhead",
    "scheduler_cost",
    "gateway_cpu",
    "transport",
    "peers",
    "ray_serve",
    "camera",
    "postprocess",
    "engine",
    "tracker",
    "socket_sink",
    "queue_sink",
    "store",
    "worker",
    "load",
    "outbox",
    "crash",
    "backfill",
    "demo",
)
OPTIONS = {"peers": ("--install",)}
"""What some are run with, so that a run never replaces figures by the word that something is not installed."""
PAGE = Path("docs/benchmarks.md")
VERDICTS = {True: "ok", False: "**missed**", None: "not measured"}
BEGIN, END = "<!-- begin {} -->", "<!-- end {} -->"


def table(report: dict[str, Any]) -> str:
    """A report as Markdown: bars first, then every figure."""
    rows = ["| bar | wanted | got | |", "| --- | --- | --- | --- |"]
    rows += [
        f"| {what} | {bar['want'].replace('<=', '≤').replace('>=', '≥')} | {bar['got']} | {VERDICTS[bar['ok']]} |"
        for what, bar in report["bars"].items()
    ]
    machine = ", ".join(f"{k} {v}" for k, v in report["machine"].items())
    figures = json.dumps(report["figures"], indent=1, ensure_ascii=False)
    words = [report["words"], ""] if "words" in report else []
    return "\n".join([f"Machine: {machine}", "", *rows, "", *words, "```json", figures, "```"])


def replace_table(page: str, name: str, text: str) -> str:
    """`page` with `text` between the markers of `name`, which must be there."""
    begin, end = BEGIN.format(name), END.format(name)
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{text}\n{end}{after}"


def without_place(page: str, names: Sequence[str] = BENCHMARKS) -> list[str]:
    """Those of `names` whose table has no place in `page`: both markers, once each, in their order."""
    found = []
    for name in names:
        begin, end = BEGIN.format(name), END.format(name)
        if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
            found.append(name)
    return found


def write_scenarios(runs: Path) -> None:
    """The table of the runs in a file of `tests.bench.scenarios`, into the page."""
    from tests.bench.scenarios import report  # noqa: PLC0415 - nothing else here needs what it loads
    from tests.bench.scenarios.results import Results  # noqa: PLC0415

    _write("scenarios", report.markdown(Results(runs)))


def _write(name: str, text: str) -> None:
    page = PAGE.read_text()
    if without_place(page, (name,)):
        sys.exit(f"{PAGE} has no place for {name}")
    PAGE.write_text(replace_table(page, name, text))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs; no figures to publish")
    parser.add_argument("--scenarios", type=Path, metavar="RUNS", help="only write the table of these runs")
    parser.add_argument(
        "--simulate",
        type=Path,
        metavar="REPORT",
        help="only write the table of this report of tests.bench.simulate",
    )
    parser.add_argument(
        "--write",
        nargs=2,
        metavar=("NAME", "REPORT"),
        help="only write the table of this report of tests.bench.NAME",
    )
    arguments = parser.parse_args()
    if arguments.scenarios is not None:
        write_scenarios(arguments.scenarios)
        return
    if arguments.simulate is not None:
        _write("simulate", table(json.loads(arguments.simulate.read_text())))
        return
    if arguments.write is not None:
        name, made = arguments.write
        _write(name, table(json.loads(Path(made).read_text())))
        return
    failed = []
    page = PAGE.read_text()
    if missing := without_place(page):  # said before an hour is spent on figures nobody would see
        wanted = "\n".join(f"{BEGIN.format(name)}\n{END.format(name)}" for name in missing)
        sys.exit(f"{PAGE} has no place for {', '.join(missing)}; write there, where each belongs:\n{wanted}")
    for name in BENCHMARKS:
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            command = [
                sys.executable,
                "-m",
                f"tests.bench.{name}",
                "--json",
                out.name,
                *OPTIONS.get(name, ()),
            ]
            code = subprocess.run(
                [*command, *(["--quick"] if arguments.quick else [])], check=False
            ).returncode
            text = Path(out.name).read_text()
        if text:
            page = replace_table(page, name, table(json.loads(text)))
        print(f"{name}: {'ok' if code == 0 else 'missed'}")
        if code:
            failed.append(name)
    PAGE.write_text(page)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
