"""Runs every benchmark and rewrites the tables of docs/benchmarks.md, and all figures in docs/benchmarks.

`scenarios` takes hours, root and a quiet machine, `simulate` an hour and recorded links: they run apart, and
`--scenarios RUNS` and `--simulate REPORT` only write their tables; `--write NAME REPORT` does so for any other.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
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
FIGURES = Path("docs/benchmarks")
"""Where a benchmark's every figure goes, as NAME.json: the page has what was asked, and what came of it."""
MOST_ROWS = 30
"""Of more groups of figures than this, the page shows none: they are for a program to read."""
VERDICTS = {True: "ok", False: "**missed**", None: "not measured"}
OVERVIEW = "overview"
BEGIN, END = "<!-- begin {} -->", "<!-- end {} -->"


def table(report: dict[str, Any]) -> str:
    """What a reader of the page needs of a report, as Markdown: the machine, the bars, the report's own words."""
    rows = ["| bar | wanted | got | |", "| --- | --- | --- | --- |"]
    rows += [
        f"| {what} | {bar['want'].replace('<=', '≤').replace('>=', '≥')} | {bar['got']} | {VERDICTS[bar['ok']]} |"
        for what, bar in report["bars"].items()
    ]
    machine = ", ".join(f"{k} {v}" for k, v in report["machine"].items())
    file = f"{FIGURES.name}/{report['name']}.json"
    parts = [f"Machine: {machine}. Every figure: [{file}]({file})."]
    if report["bars"]:
        parts.append("\n".join(rows))
    if "words" in report:
        parts.append(report["words"])
    rows = list(figure_rows(report["figures"]))
    if len(rows) <= MOST_ROWS:
        parts.append("\n".join(["| of | figures |", "| --- | --- |", *rows]))
    return "\n\n".join(parts)


def figure_rows(figures: dict[str, Any], of: str = "") -> Iterator[str]:
    """One row for each group of single figures; lists stay in the file."""
    single = {name: value for name, value in figures.items() if not isinstance(value, dict | list)}
    if single:
        yield f"| {of} | {', '.join(f'{name} {value}' for name, value in single.items())} |"
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from figure_rows(value, f"{of} · {name}" if of else name)


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


def overview(page: str) -> str:
    """How many bars of each benchmark hold, by the tables of `page`, in their order there."""
    rows = ["| benchmark | bars held | missed |", "| --- | --- | --- |"]
    for name, text in re.findall(r"<!-- begin (\w+) -->\n(.*?)<!-- end \1 -->", page, re.DOTALL):
        verdicts = [
            line.rstrip(" |").rpartition("| ")[2] for line in text.splitlines() if line.startswith("| ")
        ]
        held, missed, unmeasured = (verdicts.count(VERDICTS[ok]) for ok in (True, False, None))
        if name != OVERVIEW and held + missed + unmeasured:
            total, open_bars = held + missed + unmeasured, [str(missed)] if missed else []
            open_bars += [f"{unmeasured} not measured"] if unmeasured else []
            rows.append(f"| [{name}](#{name}) | {held} of {total} | {', '.join(open_bars)} |")
    return "\n".join(rows)


def write_scenarios(runs: Path) -> None:
    """The table of the runs in a file of `tests.bench.scenarios`, into the page."""
    from tests.bench.scenarios import report  # noqa: PLC0415 - nothing else here needs what it loads
    from tests.bench.scenarios.results import Results  # noqa: PLC0415

    _write("scenarios", report.markdown(Results(runs)))


def write_report(name: str, report: dict[str, Any]) -> None:
    """A report's table into the page, and the whole of it beside the page."""
    if report["name"] != name:
        sys.exit(f"this is a report of {report['name']}, not of {name}")
    _write(name, table(report))
    FIGURES.mkdir(exist_ok=True)
    (FIGURES / f"{name}.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")


def _write(name: str, text: str) -> None:
    page = PAGE.read_text()
    if without_place(page, (name,)):
        sys.exit(f"{PAGE} has no place for {name}")
    page = replace_table(page, name, text)
    if not without_place(page, (OVERVIEW,)):
        page = replace_table(page, OVERVIEW, overview(page))
    PAGE.write_text(page)


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
        write_report("simulate", json.loads(arguments.simulate.read_text()))
        return
    if arguments.write is not None:
        name, made = arguments.write
        write_report(name, json.loads(Path(made).read_text()))
        return
    failed = []
    if missing := without_place(PAGE.read_text()):  # said before an hour is spent on figures nobody would see
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
            write_report(name, json.loads(text))
        print(f"{name}: {'ok' if code == 0 else 'missed'}")
        if code:
            failed.append(name)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
