"""The report: a first line that can be trusted, counts that add up, and a page whatever the run left behind."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import plotly.graph_objects as go  # type: ignore[import-untyped]
import pytest

from nearfar.cli.main import run as nearfar
from nearfar.demo.phases import PHASES, Moment, write_moments
from nearfar.report.axis import Axis
from nearfar.report.charts import bytes_per_frame, bytes_up, latency_cdf, timing_split
from nearfar.report.clock import mended
from nearfar.report.frames import PARTS, parts_of, read_frames
from nearfar.report.page import render, script_json, write_report
from nearfar.report.promise import judge, percent
from nearfar.report.run import read_run
from nearfar.report.tables import frames_law, outbox_law
from nearfar.report.thin import evenly, peaks
from nearfar.report.timeline import MOST_POINTS, timeline
from nearfar.report.worst import cards
from pipelines.errors import ConfigError
from tests.support.run_dirs import (
    START_MS,
    frame_line,
    link_line,
    summary_of,
    write_lines,
    write_picture,
    write_run,
)

FRAMES = 100_000
FIGURES = (timeline, latency_cdf, timing_split, bytes_up, bytes_per_frame)


class Page(HTMLParser):
    """What a reader sees of a page: its headline, its text, and what it would load."""

    def __init__(self, text):
        super().__init__()
        self.loads = []
        self.tags = []
        self.words = []
        self._inside = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._inside.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "action") and not str(value).startswith("data:"):
                self.loads.append(value)

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self._inside):
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture
def made(tmp_path):
    """Write a run and read it."""

    def make(lines, **more):
        lines = list(lines)
        more.setdefault("summary", summary_of(lines))
        return read_run(write_run(tmp_path / "run", lines, **more))

    return make


@pytest.fixture
def page(made):
    """Write a run, report on it, and read the page."""

    def make(lines, **more):
        run = made(lines, **more)
        path, _ = write_report(run.path)
        return Page(path.read_text())

    return make


def mixed(count=200):
    """A run in which the link went away for a quarter."""
    return [frame_line(i, "near" if 50 < i <= 100 else "far") for i in range(1, count + 1)]


def a_link(seconds=8):
    for tenth in range(0, seconds * 10, 2):
        away = 20 < tenth <= 40
        yield link_line(
            tenth * 100.0,
            in_budget=not away,
            reason="pings unanswered" if away else "",
            rtt_ms=None if 30 < tenth <= 40 else 180.0 if away else 25.0,
        )


def drawn(made):
    """A figure or a law that has to be there."""
    assert made is not None
    return made


# -- the first line ---------------------------------------------------------------------------------------


def test_a_run_in_which_every_frame_was_answered_in_time_kept_its_promise(made):
    promise = judge(made(mixed()))
    assert promise.state == "kept"
    assert promise.line == (
        "Promise kept: 200 of 200 frames (100 %) answered by their deadline of 100 ms; "
        "no answer lost, no frame uncounted."
    )


def test_one_miss_in_two_hundred_is_told_and_still_kept(made):
    promise = judge(made([*mixed(199), frame_line(200, "missed")]))
    assert promise.line.startswith("Promise kept: 199 of 200 frames (99.5 %)")


def test_too_many_late_frames_break_the_promise_and_the_line_says_what_was_wanted(made):
    lines = mixed(100)
    for line in lines[:5]:
        line |= {"on_time": False, "latency_ms": 140.0}
    assert judge(made(lines)).line == (
        "Promise broken: 95 of 100 frames (95.0 %) answered by their deadline of 100 ms, and 99 % are wanted; "
        "no answer lost, no frame uncounted."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"broken": ["12 answers did not reach the sink jsonl"]}, "12 answers did not reach the sink jsonl"),
        ({"broken": ["3 answers could not be kept in the outbox"]}, "3 answers could not be kept"),
        ({"frames": {"captured": 100, "adds_up": False}}, "the counts of frames do not add up"),
        ({"frames": {"captured": 103, "adds_up": True}}, "3 frames have no readable line"),
        ({"frames": {"captured": 100, "adds_up": True, "pending": 2}}, "2 frames were still unanswered"),
        ({"outbox": {"committed": 9, "evicted": {"age": 4}}}, "4 answers were evicted from the outbox"),
        ({"outbox": {"committed": 9, "set_aside": 5}}, "5 answers were set aside with a damaged outbox"),
        ({"outbox": {"committed": 9, "adds_up": False}}, "the counts of the outbox do not add up"),
    ],
)
def test_what_was_lost_or_not_counted_breaks_the_promise_however_timely_the_answers(made, changes, words):
    lines = mixed(100)
    promise = judge(made(lines, summary=summary_of(lines, **changes)))
    assert promise.state == "broken"
    assert words in promise.line


def test_what_the_outbox_lost_in_earlier_runs_is_not_held_against_this_one(made):
    lines = mixed(100)
    outbox = {"committed": 9, "acked": 3, "pending": 0, "evicted": {"age": 4}, "set_aside": 2}
    before = {"evicted": 4, "set_aside": 2}
    run = made(lines, summary=summary_of(lines, outbox=outbox, outbox_before=before))
    assert judge(run).state == "kept"
    assert drawn(outbox_law(run)).holds


def test_gated_frames_are_outside_the_share_that_was_on_time(made):
    lines = [frame_line(i, "gated" if i % 2 else "near", reason="") for i in range(1, 101)]
    run = made(lines)
    assert judge(run).line.startswith("Promise kept: 50 of 50 frames")
    assert judge(made(lines, summary=summary_of(lines, on_time={}))).line.startswith("Promise kept: 50 of 50")


def test_a_source_without_a_pace_has_no_deadline_to_keep_and_the_line_says_so(made):
    lines = [frame_line(i, paced=False, on_time=False) for i in range(1, 51)]
    promise = judge(made(lines, summary=summary_of(lines, on_time={"frames": 0, "of": 0})))
    assert promise.state == "kept"
    assert "50 frames; none had a deadline to keep" in promise.line


def test_answers_that_wait_for_the_cloud_are_not_lost_but_told(made):
    lines = mixed(100)
    outbox = {"committed": 50, "acked": 20, "pending": 30, "evicted": {}, "set_aside": 0, "adds_up": True}
    promise = judge(made(lines, summary=summary_of(lines, outbox=outbox)))
    assert promise.state == "kept"
    assert "30 answers still wait in the outbox" in promise.details[0]


def test_an_agent_that_was_killed_is_not_judged_and_its_frames_are_still_shown(page):
    seen = page(mixed(150), summary=None)
    assert "Not judged: the agent was killed or still runs" in seen.text
    assert "150 of 150 frames (100 %) answered by their deadline of 100 ms" in seen.text
    assert "150 lines = 100 far + 50 near" in seen.text


def test_a_share_is_never_rounded_up_to_all_nor_down_to_none():
    assert percent(99_999, 100_000) == "99.999 %"
    assert percent(1, 100_000) == "0.001 %"
    assert percent(9_999_999, 10_000_000) == ">99.999 %"
    assert (percent(5, 5), percent(0, 5), percent(1, 3), percent(0, 0)) == ("100 %", "0 %", "33.3 %", "–")


# -- what a run may leave behind --------------------------------------------------------------------------


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
    assert (len(run.frames), run.frames.damaged, run.link.damaged) == (20, 9, 1)
    text = Page(write_report(root)[0].read_text()).text
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


# -- the page ---------------------------------------------------------------------------------------------


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
    seen = Page(text)
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
    assert "✓ kept on time ≥ 99 % 100 %" in Page(write_report(root)[0].read_text()).text
    (root / "verdict.json").write_text(json.dumps([{"promise": "on time"}, "x"]))
    assert write_report(root)[0].exists()


def test_the_phases_of_a_demo_are_named_above_the_timeline(made):
    run = made(mixed(), link=a_link())
    start_s = START_MS / 1000
    moments = [Moment(phase=PHASES[0], start_s=start_s, end_s=start_s + 2)]
    moments += [Moment(phase=PHASES[1], start_s=start_s + 2, end_s=start_s + 4)]
    write_moments(run.path / "phases.json", moments)
    layout = drawn(timeline(read_run(run.path)))["layout"]
    assert {n["text"] for n in layout["annotations"]} >= {PHASES[0].name, PHASES[1].name}
    (shaded,) = (s for s in layout["shapes"] if s.get("fillcolor") == "@phase")
    assert (shaded["x0"], shaded["x1"]) == (2.0, 4.0)


def test_the_command_prints_the_verdict_and_where_the_page_is(made, capsys, tmp_path):
    root = made(mixed()).path
    assert nearfar(["report", str(root), "--out", str(tmp_path / "new" / "page.html")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Promise kept: 200 of 200")
    assert f"report: {tmp_path}/new/page.html" in out
    assert (tmp_path / "new" / "page.html").stat().st_size > 100_000
    assert nearfar(["report", str(tmp_path)]) == 2


# -- the charts -------------------------------------------------------------------------------------------


def test_every_chart_is_something_plotly_draws(made):
    lines = [
        *mixed(100),
        frame_line(101, "missed"),
        frame_line(102, "shed"),
        frame_line(103, "gated"),
        frame_line(104, "tracked"),
    ]
    run = made(lines, link=a_link())
    for make in FIGURES:
        figure = json.loads(
            json.dumps(make(run), allow_nan=False).replace('"@', '"red').replace("red-", "red")
        )
        text = re.sub(r'"red[a-z-]+"', '"red"', json.dumps(figure))
        assert len(go.Figure(json.loads(text)).data) > 0  # raises on a name plotly does not know


def test_every_colour_a_chart_names_is_in_the_style(made, page):
    run = made(
        [
            *mixed(100),
            *(frame_line(100 + i, by) for i, by in enumerate(("missed", "shed", "gated", "tracked"))),
        ],
        link=a_link(),
    )
    named = set()
    for make in FIGURES:
        named |= set(re.findall(r'"@([a-z-]+)"', json.dumps(make(run))))
    style = write_report(run.path)[0].read_text().split("<style>")[1].split("</style>")[0]
    assert named
    assert {name for name in named if f"--{name}:" not in style} == set()


def test_the_bars_count_every_frame_once(made):
    lines = [*mixed(100), frame_line(101, "missed"), frame_line(102, "shed"), frame_line(103, "gated")]
    figure = drawn(timeline(made(lines, link=a_link())))
    bars = {t["name"]: sum(t["y"]) for t in figure["data"] if t["type"] == "bar"}
    assert bars == {"far": 50, "near": 50, "missed": 1, "shed": 1, "gated": 1}


def test_the_ribbon_shows_each_state_of_the_link_for_as_long_as_it_lasted(made):
    run = made(mixed(), link=a_link())
    stretches = [(s.state, s.reason, (s.end_ms - s.start_ms) / 1000) for s in run.link.stretches(run.end_ms)]
    assert [s[0] for s in stretches] == ["in budget", "over budget", "in budget"]
    assert stretches[1][1] == "pings unanswered"
    assert stretches[1][2] == pytest.approx(2.0)


def test_a_round_trip_that_was_not_measured_is_a_gap_and_not_a_zero(made):
    figure = drawn(timeline(made(mixed(), link=a_link())))
    (rtt,) = (t for t in figure["data"] if t["name"] == "round trip")
    assert None in rtt["y"]
    assert rtt["connectgaps"] is False
    assert min(v for v in rtt["y"] if v is not None) == 25.0


def test_the_parts_of_a_latency_add_up_to_it_and_an_unknown_part_is_unexplained():
    timing = {"slot_wait": 1.0, "detect": 5.0, "unexplained": 0.5, "invented": 2.0, "release": 1.5}
    assert sum(parts_of(timing)) == sum(timing.values())
    assert parts_of(timing)[PARTS.index("unexplained")] == 2.5


def test_the_split_of_the_timing_shows_means_that_add_up_to_the_mean_latency(made):
    run = made(mixed())
    figure = drawn(timing_split(run))
    for index, row in enumerate(figure["data"][0]["y"]):
        total = sum(trace["x"][index] for trace in figure["data"])
        if row.endswith("mean"):
            of = run.frames.of(row.split(",")[0])
            assert total == pytest.approx(float(run.frames.latency_ms[of].mean()), abs=0.05)


def test_bytes_are_compared_with_sending_every_frame_the_same_way(made):
    figure = drawn(bytes_up(made(mixed(200))))
    everything, sent = (trace["y"][-1] for trace in figure["data"])
    assert (sent, everything) == (0.75, 1.0)  # 150 and 200 pictures of 5 kB, in MB


def test_the_laws_add_up_or_say_that_they_do_not(made):
    lines = [*mixed(100), frame_line(101, "shed"), frame_line(102, "gated")]
    law = frames_law(made(lines))
    assert law.holds
    assert (
        law.words == "102 captured = 50 far + 50 near + 0 tracked + 0 missed + 1 shed + 1 gated + 0 pending"
    )
    broken = summary_of(lines)
    broken["frames"]["captured"] = 110
    assert frames_law(made(lines, summary=broken)).words.startswith("110 captured ≠ 50 far")


# -- the worst frames -------------------------------------------------------------------------------------


def test_the_worst_frames_are_missed_then_late_then_nearest_to_their_deadline(made):
    lines = mixed(30)
    lines[3] |= {"latency_ms": 99.0}
    lines[7] |= {"latency_ms": 130.0, "on_time": False}
    lines[9] |= {"latency_ms": 240.0, "on_time": False}
    lines[12] = frame_line(13, "missed")
    lines[15] = frame_line(16, "near", status="failed", detections=None, on_time=False)
    shown = cards(made(lines))
    assert [card.seq for card in shown][:5] == [13, 16, 10, 8, 4]
    assert len(shown) == 10
    assert shown[0].seen == "no answer"
    assert (shown[2].verdict, shown[4].verdict) == ("far, 140.0 ms late", "far, 1.0 ms before its deadline")


def test_a_worst_frame_is_shown_with_its_picture_and_its_boxes_in_source_pixels(made):
    box = {"label": "car", "class_id": 2, "score": 0.875, "box": [10, 20, 110, 70]}
    run = made([frame_line(1, latency_ms=99.0, detections=[box, {"box": "damaged"}]), frame_line(2)])
    write_picture(run.path, 1)
    first, second = cards(run)
    assert first.picture.startswith("data:image/jpeg;base64,")
    assert (first.width_px, first.height_px) == (640, 360)
    (drawn,) = first.boxes
    assert (drawn.x, drawn.y, drawn.width, drawn.height, drawn.words) == (10, 20, 100, 50, "car 0.88")
    assert second.picture == ""
    text = write_report(run.path)[0].read_text()
    assert 'viewBox="0 0 640 360"' in text
    assert "no picture was kept" in text


# -- long runs --------------------------------------------------------------------------------------------


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
    assert len(render(run)) < 15_000_000
    figure = drawn(timeline(run))
    points = [t for t in figure["data"] if t.get("yaxis") == "y2"]
    assert sum(len(t["x"]) for t in points) <= 2 * MOST_POINTS
    assert len(next(t for t in points if t["name"] == "missed")["x"]) == FRAMES // 997
    assert sum(sum(t["y"]) for t in figure["data"] if t["type"] == "bar") == FRAMES
    assert len(json.dumps(figure)) < 1_500_000


@pytest.mark.parametrize("span_s", [0, 0.04, 44, 3_600, 86_400, 40 * 86_400])
def test_the_time_axis_has_a_bounded_number_of_buckets_and_a_unit_people_read(span_s):
    axis = Axis.over(START_MS, START_MS + span_s * 1000)
    times = np.linspace(axis.start_ms, axis.end_ms, 1000)
    assert axis.bucket_count <= 152
    assert axis.buckets(times).min() >= 0
    assert axis.buckets(times).max() < axis.bucket_count
    assert axis.end <= 700


def test_thinning_keeps_first_last_peaks_and_gaps():
    marked = np.zeros(10_000, bool)
    marked[100:9_100] = True
    some = evenly(marked, 50)
    assert (len(some), some[0], some[-1]) == (50, 100, 9_099)
    values = np.ones(1_000)
    values[333] = 9.0
    values[600:700] = np.nan
    kept = values[peaks(values, 100)]
    assert len(kept) <= 100
    assert np.nanmax(kept) == 9.0
    assert np.isnan(kept).sum() == 10


def test_frames_are_told_in_the_order_they_were_captured_however_they_were_written(tmp_path):
    lines = [frame_line(i) for i in (3, 1, 2)]
    write_lines(tmp_path / "frames.jsonl", lines)
    frames = read_frames(tmp_path / "frames.jsonl")
    assert np.all(np.diff(frames.unix_ms) > 0)
