"""A run directory as it was left behind: whatever is missing or damaged, there is a report."""

import json

import numpy as np
import pytest

from nearfar.report.charts import bytes_per_frame, bytes_up, latency_cdf, timing_split
from nearfar.report.clock import mended
from nearfar.report.frames import PARTS, parts_of, read_frames
from nearfar.report.page import script_json, write_report
from nearfar.report.promise import judge
from nearfar.report.run import read_run
from nearfar.report.timeline import timeline
from nearfar.report.worst import cards
from pipelines.errors import ConfigError
from tests.support.pages import ReadPage
from tests.support.run_dirs import (
    a_link,
    frame_line,
    link_line,
    mixed,
    write_lines,
    write_run,
)

FIGURES = (timeline, latency_cdf, timing_split, bytes_up, bytes_per_frame)


def test_an_empty_run_has_a_page_that_says_so(page):
    seen = page([])
    assert "Nothing to judge: no frame was captured." in seen.text
    assert "script" not in seen.tags


def test_a_run_without_a_link_has_a_page_that_says_so(page):
    lines = [frame_line(i, "near", reason="") for i in range(1, 60)]
    seen = page(lines)
    assert "This run had no link" in seen.text
    assert "No picture left the gateway." in seen.text


def test_damaged_and_cut_off_lines_are_skipped_and_counted(tmp_path):
    root = write_run(tmp_path, mixed(20), link=a_link())
    with (root / "frames.jsonl").open("a") as file:
        file.write('{"agent": "gw"}\nnot json at all\n[]\n"words"\n\n12\n')
        file.write(json.dumps(frame_line(21, latency_ms="soon")) + "\n")
        file.write(json.dumps(frame_line(21, outcome="invented")) + "\n")
        file.write(json.dumps(frame_line(21, encoding={"bytes": "many"})) + "\n")
        file.write(json.dumps(frame_line(21))[:100])  # the agent was killed here
    with (root / "link.jsonl").open("a") as file:
        file.write('{"unix_ms": 1')
    run = read_run(root)
    assert (len(run.frames), run.frames.damaged, run.links_damaged) == (20, 9, 1)
    text = ReadPage(write_report(root)[0].read_text()).text
    assert "9 damaged or cut-off lines of frames.jsonl were skipped." in text
    assert "1 damaged or cut-off lines of link.jsonl were skipped." in text


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1e400", "1e300", "-5", "null", "[]", '"soon"'])
@pytest.mark.parametrize(
    "key", ["captured_unix_ms", "latency_ms", "deadline_ms", "timing", "encoding", "seq"]
)
def test_a_line_with_an_impossible_value_stops_no_report(tmp_path, key, value):
    root = write_run(tmp_path, mixed(20), link=[link_line(0)])
    with (root / "frames.jsonl").open("a") as file:
        file.write(json.dumps(frame_line(21) | {key: "HERE"}).replace('"HERE"', value) + "\n")
    with (root / "link.jsonl").open("a") as file:
        for name in ("unix_ms", "rtt_ms", "fall_back_above_ms"):
            file.write(json.dumps(link_line(5) | {name: "HERE"}).replace('"HERE"', value) + "\n")
    run = read_run(root)
    assert 20 <= len(run.frames) + run.frames.damaged <= 21
    script_json([make(run) for make in FIGURES])  # raises where a number is none
    assert len(cards(run)) == 10
    assert judge(run).state == "open"


def test_a_file_of_arbitrary_bytes_is_only_damage(tmp_path):
    (tmp_path / "frames.jsonl").write_bytes(
        bytes(np.random.default_rng(3).integers(0, 256, 20_000, np.uint8))
    )
    run = read_run(tmp_path)
    assert len(run.frames) == 0
    assert run.frames.damaged > 0
    assert write_report(tmp_path)[0].exists()


@pytest.mark.parametrize("text", ["", "null", "[1]", '{"frames": 7, "outbox": [], "facts": null}'])
def test_a_summary_that_is_not_one_stops_no_report(tmp_path, text):
    root = write_run(tmp_path, mixed(20))
    (root / "summary.json").write_text(text)
    assert write_report(root)[0].exists()


def test_a_directory_that_is_no_run_is_refused_with_what_to_give(tmp_path):
    with pytest.raises(ConfigError, match=r"holds neither frames\.jsonl nor summary\.json"):
        read_run(tmp_path)
    with pytest.raises(ConfigError, match="is no directory"):
        read_run(tmp_path / "gone")


def test_a_page_that_cannot_be_written_says_what_to_do_and_leaves_nothing(tmp_path):
    root = write_run(tmp_path / "run", mixed(20))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="choose another file with --out"):
        write_report(root, tmp_path / "file" / "report.html")
    assert sorted(p.name for p in root.iterdir()) == ["frames.jsonl"]


def test_the_clock_of_a_gateway_that_started_in_1970_leaves_no_empty_years(made):
    lines = mixed(50)
    for i, line in enumerate(lines[:10]):
        line["captured_unix_ms"] = 5_000.0 + 40 * i
    run = made(lines)
    assert run.end_ms - run.start_ms < 3_000
    assert np.all(np.diff(run.frames.unix_ms) >= 0)
    assert mended(np.array([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_frames_are_told_in_the_order_they_were_captured_however_they_were_written(tmp_path):
    lines = [frame_line(i) for i in (3, 1, 2)]
    write_lines(tmp_path / "frames.jsonl", lines)
    frames = read_frames(tmp_path / "frames.jsonl")
    assert np.all(np.diff(frames.unix_ms) > 0)


def test_the_parts_of_a_latency_add_up_to_it_and_an_unknown_part_is_unexplained():
    timing = {"slot_wait": 1.0, "detect": 5.0, "unexplained": 0.5, "invented": 2.0, "release": 1.5}
    assert sum(parts_of(timing)) == sum(timing.values())
    assert parts_of(timing)[PARTS.index("unexplained")] == 2.5


def test_a_line_that_was_written_twice_stops_no_report(made):
    """Of equals the lines themselves have no order."""
    lines = [*mixed(12), *mixed(12)]
    run = made(lines)
    assert len(run.frames) == 24
    assert len(cards(run)) == 10
