"""The charts: something plotly draws, with every frame counted once and every gap a gap."""

import json
import re

import plotly.graph_objects as go  # type: ignore[import-untyped]
import pytest

from nearfar.demo.phases import PHASES, Moment, write_moments
from nearfar.report.charts import bytes_per_frame, bytes_up, latency_cdf, timing_split
from nearfar.report.page import write_report
from nearfar.report.run import read_run
from nearfar.report.timeline import timeline
from tests.support.run_dirs import (
    START_MS,
    a_link,
    frame_line,
    mixed,
)

FIGURES = (timeline, latency_cdf, timing_split, bytes_up, bytes_per_frame)


def drawn(made):
    """A figure or a law that has to be there."""
    assert made is not None
    return made


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
    (link,) = run.links
    stretches = [(s.state, s.reason, (s.end_ms - s.start_ms) / 1000) for s in link.stretches(run.end_ms)]
    assert [s[0] for s in stretches] == ["in budget", "over budget", "in budget"]
    assert stretches[1][1] == "pings unanswered"
    assert stretches[1][2] == pytest.approx(2.0)


def test_each_of_several_links_has_its_round_trips_and_a_row_of_states(made):
    other = [line | {"link": "cable", "connected": False, "rtt_ms": 60.0} for line in a_link()]
    run = made(mixed(), link=[line for pair in zip(a_link(), other, strict=True) for line in pair])
    assert [link.name for link in run.links] == ["lte", "cable"]
    figure = drawn(timeline(run))
    trips = {t["name"]: t for t in figure["data"] if t["name"].startswith("round trip")}
    assert set(trips) == {"round trip lte", "round trip cable"}
    assert set(trips["round trip cable"]["y"]) == {60.0}
    rows = {y: t["name"] for t in figure["data"] if t.get("yaxis") == "y4" for y in t["y"] if y is not None}
    assert rows[-1] == "link no connection"
    assert figure["layout"]["yaxis4"]["ticktext"] == ["lte", "cable"]
    named = [t["name"] for t in figure["data"] if t.get("showlegend", True)]
    assert len(set(named)) == len(named), "each word stands in the legend once"


def test_a_round_trip_that_was_not_measured_is_a_gap_and_not_a_zero(made):
    figure = drawn(timeline(made(mixed(), link=a_link())))
    (rtt,) = (t for t in figure["data"] if t["name"] == "round trip")
    assert None in rtt["y"]
    assert rtt["connectgaps"] is False
    assert min(v for v in rtt["y"] if v is not None) == 25.0


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
