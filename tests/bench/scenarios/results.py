"""Runs that were made, one line of JSON each, in a file that only grows: what is there is not made again."""

import contextlib
import json
from pathlib import Path
from typing import Any

from tests.bench.scenarios.one_run import Plan

Row = dict[str, Any]


class Results:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[Row] = []
        for line in path.read_text().splitlines() if path.exists() else ():
            # Cut off by a crash: that run has to be made again.
            with contextlib.suppress(json.JSONDecodeError):
                self.rows.append(json.loads(line))

    def add(self, row: Row) -> None:
        self.rows.append(row)
        with self._path.open("a+b") as file:
            cut_off = file.tell() and self._path.read_bytes()[-1:] != b"\n"
            file.write((b"\n" if cut_off else b"") + json.dumps(row).encode() + b"\n")

    def wants(self, plan: Plan, *, repeats: int) -> bool:
        """Whether this run has to be made, or once more, at most `repeats` times, because it failed or the machine
        disturbed it; then the disturbed ones are all there is."""
        same = [row for row in self.rows if row["plan"] == plan.as_dict()]
        good = [row for row in same if not row.get("failed") and not row.get("discarded")]
        return not good and len(same) <= repeats

    @property
    def good(self) -> list[Row]:
        """Neither failed nor disturbed."""
        return [row for row in self.rows if not row.get("failed") and not row.get("discarded")]

    @property
    def discarded(self) -> list[Row]:
        return [row for row in self.rows if row.get("discarded")]

    @property
    def failed(self) -> list[Row]:
        return [row for row in self.rows if row.get("failed")]
