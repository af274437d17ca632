"""The report of real runs, and the page in a real browser."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nearfar.report.frames import read_frames
from nearfar.report.page import write_report
from nearfar.report.run import read_run
from nearfar.report.worst import cards
from tests.support.rig import rig
from tests.support.run_dirs import frame_line, link_line, summary_of, write_picture, write_run


def report(run_dir: Path) -> str:
    """What `nearfar report` says, as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "nearfar", "report", str(run_dir)], capture_output=True, text=True, check=True
    )
    return done.stdout


def browse(page: Path, profile: Path, *, width: int) -> tuple[str, str]:
    """The document after its scripts have run, and what the browser's console said."""
    done = subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
            f"--window-size={width},2000",
            "--virtual-time-budget=8000",
            "--enable-logging=stderr",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env=os.environ | {"HOME": str(profile)},
    )
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A page with everything on it."""
    lines = [frame_line(i, "near" if 50 < i <= 100 else "far") for i in range(1, 200)]
    lines += [frame_line(200, "missed"), frame_line(201, "shed"), frame_line(202, "gated")]
    box = {"label": "<car>", "class_id": 2, "score": 0.9, "box": [10, 20, 110, 70]}
    lines[5] |= {"latency_ms": 99.5, "detections": [box]}
    looks = [link_line(i * 200.0, in_budget=not 10 < i <= 20) for i in range(40)]
    root = write_run(tmp_path / "run", lines, link=looks, summary=summary_of(lines))
    write_picture(root, 6)
    return write_report(root)[0]


@pytest.mark.service("chromium")
@pytest.mark.parametrize("width", [1280, 600])
def test_a_browser_draws_every_chart_and_complains_of_nothing(written, tmp_path, width):
    document, console = browse(written, tmp_path / "profile", width=width)
    assert console == ""
    assert 'data-drawn="true"' in document
    charts = re.findall(r'data-figure="(\w+)"', document)
    assert charts == ["timeline", "latency", "timing", "bytes", "sizes"]
    # plotly draws the parts of each chart into the first of its main-svg elements.
    plots = document.split("data-figure=")[1:]
    for name, plot in zip(charts, plots, strict=True):
        assert "main-svg" in plot, f"the chart {name} was not drawn"
    assert len(re.findall(r'class="point', plots[0])) > 200
    assert "@" not in "".join(re.findall(r'(?:fill|stroke): ([^;"]+)', document)), "a colour was not resolved"


@pytest.mark.service("chromium")
def test_a_browser_complains_of_nothing_on_a_page_without_charts(tmp_path):
    page, _ = write_report(write_run(tmp_path / "run", []))
    document, console = browse(page, tmp_path / "profile", width=1280)
    assert console == ""
    assert "Not judged" in document


@pytest.mark.alone
def test_the_report_of_a_real_run_tells_what_the_agent_counted(tmp_path: Path) -> None:
    with rig(tmp_path) as house:
        house.start_worker()
        house.start_agent("--frames", "60")
        summary: dict[str, Any] = house.finish_agent()
        run = read_run(house.run_dir)
        assert report(house.run_dir).startswith("Promise kept: 60 of 60 frames (100 %)")
    assert {n: run.frames.count(n) for n in ("far", "near")} == {
        n: summary["frames"][n] for n in ("far", "near")
    }
    (link,) = run.links
    assert link.name == "cable"
    assert (link.fall_back_above_ms, link.return_below_ms) == (200.0, 100.0)
    states = [s.state for s in link.stretches(run.end_ms)]
    assert states[0] in ("no connection", "over budget"), "seen first before or after the worker's welcome"
    assert states[-1] == "in budget"
    assert summary["facts"]["far"]["name"] == "thing"
    assert summary["facts"]["streams"]["cam"]["source"] == "synthetic"
    assert summary["broken"] == []
    shown = cards(run)
    assert len(shown) == 10
    assert [card for card in shown if not card.picture] == []
    assert len(list((house.run_dir / "worst").iterdir())) == 10


def test_an_agent_killed_in_the_middle_still_has_a_report(tmp_path: Path) -> None:
    with rig(tmp_path) as house:
        house.start_worker()
        house.start_agent()
        house.wait_answers("far", 40)
        house.kill_agent()
        said = report(house.run_dir)
        frames = read_frames(house.run_dir / "frames.jsonl")
        assert len(frames) > 0
        assert said.startswith("Not judged: the agent was killed or still runs")
        page = (house.run_dir / "report.html").read_text()
        assert json.loads(page.split('type="application/json">')[1].split("</script>")[0])["timeline"]
