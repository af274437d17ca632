"""Runs every benchmark and rewrites the tables of docs/benchmarks.md."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BENCHMARKS = ("overhead", "transport", "camera", "postprocess", "demo")
PAGE = Path("docs/benchmarks.md")
BEGIN, END = "<!-- begin {} -->", "<!-- end {} -->"


def table(report: dict[str, Any]) -> str:
    """A report as Markdown: bars first, then every figure."""
    rows = ["| bar | wanted | got | |", "| --- | --- | --- | --- |"]
    rows += [
        f"| {what} | {bar['want'].replace('<=', '≤').replace('>=', '≥')} | {bar['got']} | {'ok' if bar['ok'] else '**missed**'} |"
        for what, bar in report["bars"].items()
    ]
    machine = ", ".join(f"{k} {v}" for k, v in report["machine"].items())
    figures = json.dumps(report["figures"], indent=1, ensure_ascii=False)
    return "\n".join([f"Machine: {machine}", "", *rows, "", "```json", figures, "```"])


def replace_table(page: str, name: str, text: str) -> str:
    begin, end = BEGIN.format(name), END.format(name)
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{text}\n{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    failed = []
    page = PAGE.read_text()
    for name in BENCHMARKS:
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            command = [sys.executable, "-m", f"tests.bench.{name}", "--json", out.name]
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
