"""The decision timeline: who answered each frame, how long it took, the round trip in its band, the link's state.

Four plots over one time axis, as plain plotly JSON; colours are names (`@far`) that the page resolves.
"""

from typing import Any

import numpy as np

from nearfar.report.axis import Axis, span
from nearfar.report.frames import OUTCOMES
from nearfar.report.links import STATES, LinkHistory, Stretch
from nearfar.report.run import Run
from nearfar.report.thin import evenly, peaks

Figure = dict[str, Any]

MOST_POINTS = 4000
_MOST_ODD_POINTS = 1500
_MOST_ROUND_TRIPS = 2000
_MOST_STRETCHES = 600
_ODD = ("tracked", "missed")
_STATE_COLORS = {"in budget": "@good", "over budget": "@warn", "no connection": "@bad"}
_DOMAINS = {"y": (0.73, 1.0), "y2": (0.40, 0.67), "y3": (0.11, 0.34), "y4": (0.0, 0.05)}
_WITHOUT_LINK = {"y": (0.57, 1.0), "y2": (0.0, 0.49)}


def timeline(run: Run) -> Figure | None:
    """The figure, None for a run without frames."""
    if not len(run.frames):
        return None
    axis = Axis.over(run.start_ms, run.end_ms)
    traces = [*_decisions(run, axis), *_latencies(run, axis)]
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    domains = _DOMAINS if len(run.link) else _WITHOUT_LINK
    if len(run.link):
        traces += [*_round_trips(run.link, axis), *_states(run, axis)]
        shapes += _band(run.link)
    if run.deadline_ms is not None:
        shapes.append(_line("y2", run.deadline_ms, "@bad"))
        notes.append(_beside("y2", run.deadline_ms, "deadline"))
    if run.link.fall_back_above_ms is not None and run.link.return_below_ms is not None:
        notes.append(_beside("y3", run.link.fall_back_above_ms, "fall back"))
        notes.append(_beside("y3", run.link.return_below_ms, "return"))
    for phase in run.phases:
        left, right = (float(v) for v in axis.at([phase.start_ms, phase.end_ms]))
        if not phase.good:
            shapes.append(_area("x", (left, right), "paper", (0, 1), "@phase"))
        notes.append(_above((left + right) / 2, phase.name))
    return {"data": traces, "layout": _layout(run, axis, domains, shapes, notes)}


def _layout(
    run: Run,
    axis: Axis,
    domains: dict[str, tuple[float, float]],
    shapes: list[dict[str, Any]],
    notes: list[dict[str, Any]],
) -> Figure:
    titles = {
        "y": "frames per second" if axis.bucket_ms == 1000 else f"frames per {span(axis.bucket_ms)}",
        "y2": "latency, ms",
        "y3": "round trip, ms",
        "y4": "link",
    }
    layout: Figure = {
        "height": 720 if len(domains) == 4 else 480,
        "barmode": "stack",
        "bargap": 0.08,
        "hovermode": "closest",
        "margin": {"l": 56, "r": 64, "t": 34, "b": 44},
        "legend": {"orientation": "h", "y": -0.1, "yanchor": "top", "x": 0},
        "xaxis": {
            "title": {"text": axis.title},
            "range": [0, max(axis.end, 1e-3)],
            "anchor": list(domains)[-1],
            "zeroline": False,
        },
        "shapes": shapes,
        "annotations": notes,
    }
    for name, domain in domains.items():
        layout[f"yaxis{name[1:]}"] = {
            "domain": list(domain),
            "title": {"text": titles[name]},
            "rangemode": "tozero",
            "zeroline": False,
        }
    if "y4" in domains:
        layout["yaxis4"] |= {
            "range": [-1, 1],
            "showticklabels": False,
            "showgrid": False,
            "title": {"text": ""},
        }
        layout["yaxis3"]["range"] = [0, _round_trip_cap(run.link)]
    top = _latency_cap(run)
    layout["yaxis2"]["range"] = [0, top]
    return layout


def _decisions(run: Run, axis: Axis) -> list[Figure]:
    """Frames per bucket, stacked by what became of them."""
    frames = run.frames
    bucket = axis.buckets(frames.unix_ms)
    centres = (np.arange(axis.bucket_count) + 0.5) * axis.bucket_ms / axis.unit_ms
    traces = []
    for number, name in enumerate(OUTCOMES):
        of = frames.outcome == number
        if not of.any():
            continue
        counts = np.bincount(bucket[of], minlength=axis.bucket_count)
        traces.append(
            {
                "type": "bar",
                "name": name,
                "legendgroup": name,
                "x": _rounded(centres),
                "y": counts.tolist(),
                "width": axis.bucket_ms / axis.unit_ms * 0.94,
                "marker": {"color": f"@{name}", "line": {"width": 0}},
                "hovertemplate": f"%{{y}} {name}<extra></extra>",
            }
        )
    return traces


def _latencies(run: Run, axis: Axis) -> list[Figure]:
    """A point per answer; of a long run every odd one (up to a bound) and an even sample of the rest."""
    frames = run.frames
    top = _latency_cap(run)
    answered = ~np.isnan(frames.latency_ms)
    usual = sum(1 for name in ("far", "near") if frames.count(name)) or 1
    traces = []
    for name in ("far", "near", "tracked", "missed"):
        of = frames.of(name) & answered
        if not of.any():
            continue
        if name in _ODD:
            chosen = evenly(of, _MOST_ODD_POINTS)
        else:
            late = of & ~frames.on_time & frames.paced
            chosen = np.union1d(evenly(late, _MOST_ODD_POINTS), evenly(of & ~late, MOST_POINTS // usual))
        latency = frames.latency_ms[chosen]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "legendgroup": name,
                "showlegend": False,
                "yaxis": "y2",
                "x": _rounded(axis.at(frames.unix_ms[chosen])),
                "y": _rounded(np.minimum(latency, top), 2),
                "customdata": _rounded(latency, 1),
                "marker": {
                    "color": f"@{name}",
                    "size": 9 if name in _ODD else 4,
                    "symbol": "x" if name == "missed" else "circle",
                },
                "hovertemplate": f"{name}, %{{customdata}} ms<extra></extra>",
            }
        )
    return traces


def _latency_cap(run: Run) -> float:
    """The top of the latency plot: everything near the deadline is seen, a stray minute does not flatten it."""
    values = run.frames.latency_ms[~np.isnan(run.frames.latency_ms)]
    highest = float(values.max()) if len(values) else 1.0
    deadline = run.deadline_ms or highest
    return 1.05 * max(min(highest, 3 * deadline), 1.1 * deadline)


def _round_trips(link: LinkHistory, axis: Axis) -> list[Figure]:
    chosen = peaks(link.rtt_ms, _MOST_ROUND_TRIPS)
    rtt = link.rtt_ms[chosen]
    top = _round_trip_cap(link)
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "round trip",
            "showlegend": False,
            "yaxis": "y3",
            "x": _rounded(axis.at(link.unix_ms[chosen])),
            "y": _rounded(np.minimum(rtt, top), 2),
            "customdata": _rounded(rtt, 1),
            "connectgaps": False,
            "line": {"color": "@ink", "width": 1.4},
            "marker": {"color": "@ink", "size": 3},
            "hovertemplate": "round trip %{customdata} ms<extra></extra>",
        }
    ]


def _round_trip_cap(link: LinkHistory) -> float:
    seen = link.rtt_ms[~np.isnan(link.rtt_ms)]
    highest = float(seen.max()) if len(seen) else 0.0
    above = link.fall_back_above_ms or highest or 1.0
    return 1.05 * max(min(highest, 3 * above), 1.15 * above)


def _states(run: Run, axis: Axis) -> list[Figure]:
    """One thick line per state, with the reason of each stretch."""
    stretches = list(run.link.stretches(run.end_ms))
    if len(stretches) > _MOST_STRETCHES:  # a link that flapped for days: the longest ones say it
        stretches = sorted(stretches, key=_length, reverse=True)[:_MOST_STRETCHES]
        stretches.sort(key=lambda s: s.start_ms)
    traces = []
    for state in STATES:
        mine = [s for s in stretches if s.state == state]
        if not mine:
            continue
        x: list[float | None] = []
        words: list[str | None] = []
        for s in mine:
            left, right = (round(float(v), 3) for v in axis.at([s.start_ms, s.end_ms]))
            x += [left, (left + right) / 2, right, None]
            words += [f"{state}{': ' if s.reason else ''}{_plain(s.reason)}"] * 3 + [None]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"link {state}",
                "yaxis": "y4",
                "x": x,
                "y": [None if v is None else 0 for v in x],
                "text": words,
                "line": {"color": _STATE_COLORS[state], "width": 16},
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    return traces


def _length(stretch: Stretch) -> float:
    return stretch.end_ms - stretch.start_ms


def _plain(text: str) -> str:
    """Plotly reads a few tags in hover text; words from outside are only words."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _band(link: LinkHistory) -> list[dict[str, Any]]:
    above, below = link.fall_back_above_ms, link.return_below_ms
    if above is None or below is None:
        return []
    return [
        _area("paper", (0, 1), "y3", (below, above), "@band"),
        _line("y3", above, "@warn"),
        _line("y3", below, "@good"),
    ]


def _area(xref: str, x: tuple[float, float], yref: str, y: tuple[float, float], color: str) -> dict[str, Any]:
    return {
        "type": "rect",
        "layer": "below",
        "xref": xref,
        "x0": x[0],
        "x1": x[1],
        "yref": yref,
        "y0": y[0],
        "y1": y[1],
        "fillcolor": color,
        "line": {"width": 0},
    }


def _line(yref: str, y: float, color: str) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "yref": yref,
        "y0": y,
        "y1": y,
        "line": {"color": color, "width": 1.2, "dash": "dash"},
    }


def _beside(yref: str, y: float, text: str) -> dict[str, Any]:
    return {
        "xref": "paper",
        "x": 1.005,
        "xanchor": "left",
        "yref": yref,
        "y": y,
        "text": text,
        "showarrow": False,
        "font": {"size": 11, "color": "@muted"},
    }


def _above(x: float, text: str) -> dict[str, Any]:
    return {
        "xref": "x",
        "x": x,
        "yref": "paper",
        "y": 1.0,
        "yanchor": "bottom",
        "text": _plain(text),
        "showarrow": False,
        "font": {"size": 12, "color": "@muted"},
    }


def _rounded(values: Any, digits: int = 3) -> list[float | None]:
    """Short numbers for JSON; NaN is null, a gap."""
    return [None if np.isnan(v) else round(float(v), digits) for v in values]
