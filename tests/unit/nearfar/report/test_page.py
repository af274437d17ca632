"""The page: one file that asks no network, whose words are only words, and that stays small."""

import json

from nearfar.cli.main import run as nearfar
from nearfar.report.page import render, script_json, write_report
from nearfar.report.promise import judge
from nearfar.report.run import read_run
from nearfar.report.timeline import MOST_POINTS, timeline
from tests.support.pages import ReadPage
from tests.support.run_dirs import (
    START_MS,
    a_link,
    frame_line,
    link_line,
    mixed,
    summary_of,
    write_picture,
    write_run,
)


def drawn(made):
    """A figure or a law that has to be there."""
    assert made is not None
    return made


FRAMES = 100_000


def test_the_page_asks_no_network_and_its_first_words_are_the_verdict(page):
    seen = page(mixed(), link=a_link())
    assert seen.loads == []
    assert seen.text.strip().startswith("Promise kept: 200 of 200 frames")
    assert seen.tags.count("h1") == 1


def test_words_from_outside_are_only_words(made):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    lines = [
        frame_line(1, "missed", reason=evil, stream="door", model=evil),
        frame_line(2, model=evil, detections=[{"label": evil, "score": 0.5, "box": [1, 2, 30, 40]}]),
    ]
    summary = summary_of(lines, agent=evil, broken=[evil], facts={"machine": {"host": evil}})
    root = made(lines, summary=summary, link=[link_line(0, link=evil, reason=evil, in_budget=False)]).path
    (root / "phases.json").write_text(
        json.dumps([{"name": evil, "good": False, "start_unix_ms": START_MS, "end_unix_ms": START_MS + 9}])
    )
    (root / "verdict.json").write_text(
        json.dumps([{"promise": evil, "want": evil, "got": evil, "held": True}])
    )
    write_picture(root, 2)
    text = write_report(root)[0].read_text()
    assert evil not in text
    assert "<img" not in text
    seen = ReadPage(text)
    assert seen.tags.count("script") == 3
    assert evil in seen.text


def test_json_in_a_script_cannot_end_it():
    value = {"a": "</script><!-- & ]]>"}
    text = script_json(value)
    assert not set("<>&") & set(text)
    assert json.loads(text) == value


def test_the_checks_of_a_demo_are_shown_and_damaged_ones_stop_no_report(made):
    root = made(mixed()).path
    (root / "verdict.json").write_text(
        json.dumps([{"promise": "on time", "want": "≥ 99 %", "got": "100 %", "held": True}])
    )
    assert "✓ kept on time ≥ 99 % 100 %" in ReadPage(write_report(root)[0].read_text()).text
    (root / "verdict.json").write_text(json.dumps([{"promise": "on time"}, "x"]))
    assert write_report(root)[0].exists()


def test_the_command_prints_the_verdict_and_where_the_page_is(made, capsys, tmp_path):
    root = made(mixed()).path
    assert nearfar(["report", str(root), "--out", str(tmp_path / "new" / "page.html")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Promise kept: 200 of 200")
    assert f"report: {tmp_path}/new/page.html" in out
    assert (tmp_path / "new" / "page.html").stat().st_size > 100_000
    assert nearfar(["report", str(tmp_path)]) == 2


def test_a_hundred_thousand_frames_still_make_a_usable_page(tmp_path):
    def lines():
        for seq in range(1, FRAMES + 1):
            by = "missed" if seq % 997 == 0 else "near" if (seq // 5000) % 3 == 1 else "far"
            yield frame_line(seq, by, latency_ms=20.0 + seq % 61)

    def link():
        for i in range(20_000):
            yield link_line(i * 200.0, rtt_ms=20.0 + i % 90, in_budget=(i // 50) % 4 != 0)

    root = write_run(tmp_path, lines(), link=link())
    run = read_run(root)
    assert len(render(run, judge(run))) < 15_000_000
    figure = drawn(timeline(run))
    points = [t for t in figure["data"] if t.get("yaxis") == "y2"]
    assert sum(len(t["x"]) for t in points) <= 2 * MOST_POINTS
    assert len(next(t for t in points if t["name"] == "missed")["x"]) == FRAMES // 997
    assert sum(sum(t["y"]) for t in figure["data"] if t["type"] == "bar") == FRAMES
    assert len(json.dumps(figure)) < 1_500_000
