"""The benchmarks' page: every table goes to its place, and a page without the place is told before anything runs."""

import json
import subprocess
import sys

import pytest

from tests.bench.__main__ import (
    BEGIN,
    BENCHMARKS,
    END,
    MOST_ROWS,
    main,
    overview,
    replace_table,
    table,
    without_place,
)


def a_page(*names: str) -> str:
    return "# Figures\n\n" + "\n".join(
        f"{BEGIN.format(n)}\nold {n}\n{END.format(n)}\n\nWords." for n in names
    )


def test_a_table_replaces_the_one_between_its_markers_and_touches_nothing_else():
    page = a_page(*BENCHMARKS)
    new = replace_table(page, "camera", "new figures")
    assert new == page.replace("old camera", "new figures")
    assert without_place(new) == []


@pytest.mark.parametrize(
    "page",
    [
        a_page(*BENCHMARKS).replace(BEGIN.format("camera"), ""),
        a_page(*BENCHMARKS).replace(END.format("camera"), ""),
        a_page(*BENCHMARKS, "camera"),
        a_page(*BENCHMARKS)
        .replace(BEGIN.format("camera"), "x")
        .replace(END.format("camera"), BEGIN.format("camera"))
        .replace("x", END.format("camera"), 1),
    ],
    ids=["no beginning", "no end", "twice", "the wrong way round"],
)
def test_a_table_without_its_place_is_told_and_never_appended(page):
    assert without_place(page) == ["camera"]


def test_a_run_that_could_not_be_written_down_is_not_begun(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "benchmarks.md").write_text(a_page("demo"))
    code = (
        "import sys, subprocess\n"
        "subprocess.run = lambda *a, **k: sys.exit('a benchmark was begun')\n"
        "from tests.bench.__main__ import main\n"
        "import os; os.chdir(sys.argv.pop())\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "docs/benchmarks.md has no place for overhead, scheduler_cost" in done.stderr
    assert BEGIN.format("camera") in done.stderr


@pytest.mark.parametrize(
    ("name", "options"),
    [("simulate", ["--simulate"]), ("peers", ["--write", "peers"])],
    ids=["simulate", "peers"],
)
def test_the_table_of_a_report_made_apart_goes_to_its_place(name, options, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "benchmarks.md"
    page.write_text(a_page(name, "demo"))
    made = {
        "bars": {"F1": {"want": ">= 0.5", "got": 0.6, "ok": True}},
        "machine": {"cores": 2},
        "name": name,
        "figures": {"zmq": {"p50": 7, "each": [1, 2]}, "of all": 9},
    }
    (tmp_path / "report.json").write_text(json.dumps(made))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench", *options, "report.json"])
    main()
    text = page.read_text()
    assert "| F1 | ≥ 0.5 | 0.6 | ok |" in text
    assert "| zmq | p50 7 |" in text
    assert "old demo" in text
    assert f"(benchmarks/{name}.json)" in text
    assert json.loads((tmp_path / "docs" / "benchmarks" / f"{name}.json").read_text()) == made


def test_the_overview_counts_the_bars_of_every_table_on_the_page():
    page = a_page("camera", "demo", "tracker")
    page = page.replace(
        "old camera", "| F1, mean | ≥ 0.5 | 0.6 | ok |\n| age | ≤ 1 | 2 | **missed** |\n| of | figures |"
    )
    page = page.replace("old demo", "| peers | < 1 | not installed | not measured |")
    assert overview(page).splitlines()[2:] == [
        "| [camera](#camera) | 1 of 2 | 1 |",
        "| [demo](#demo) | 0 of 1 | 1 not measured |",
    ]


def test_of_many_groups_of_figures_the_page_shows_none_and_the_file_all():
    figures = {str(n): {"p50": n} for n in range(MOST_ROWS + 1)}
    report = {"name": "simulate", "bars": {}, "machine": {}, "figures": figures}
    assert "p50" not in table(report)
    del figures["0"]
    assert "| 1 | p50 1 |" in table(report)
