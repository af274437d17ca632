"""The decision timeline: who answered each frame, how long it took, the round trips in their band, the links' states.

Four plots over one time axis, as plain plotly JSON; colours are names (`@far`) that the page resolves.
"""

from typing import Any

import numpy as np

from nearfar.report import link_plot
from nearfar.report.axis import Axis, span
from nearfar.report.frames import OUTCOMES
from nearfar.report.run import Run
from nearfar.report.shapes import above, across, band_upright, beside, rounded
from nearfar.report.thin import evenly

Figure = dict[str, Any]

MOST_POINTS = 4000
_MOST_ODD_POINTS = 1500
_ODD = ("tracked", "missed")
_DOMAINS = {"y": (0.73, 1.0), "y2": (0.40, 0.67), "y3": (0.13, 0.34), "y4": (0.0, 0.08)}
_WITHOUT_LINK = {"y": (0.57, 1.0), "y2": (0.0, 0.49)}


def timeline(run: Run) -> Figure | None:
    """The figure, None for a run without frames."""
    if not len(run.frames):
        return None
    axis = run.axis
    traces = [*_decisions(run, axis), *_latencies(run, axis)]
    domains = _DOMAINS if run.links else _WITHOUT_LINK
    shapes, notes = link_plot.band(run.links)
    traces += link_plot.round_trips(run.links, axis)
    traces += link_plot.states(run.links, axis, end_ms=run.end_ms)
    if run.deadline_ms is not None:
        shapes.append(across(yref="y2", y=run.deadline_ms, color="@bad"))
        notes.append(beside(yref="y2", y=run.deadline_ms, text="deadline"))
    for phase in run.phases:
        left, right = (float(v) for v in axis.at([phase.start_ms, phase.end_ms]))
        if not phase.good:
            shapes.append(band_upright(x=(left, right), color="@phase"))
        notes.append(above(x=(left + right) / 2, text=phase.name))
    layout = _layout(run, axis, domains) | {"shapes": shapes, "annotations": notes}
    return {"data": traces, "layout": layout}


def _layout(run: Run, axis: Axis, domains: dict[str, tuple[float, float]]) -> Figure:
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
            "range": [0.5 - len(run.links), 0.5],
            "showgrid": False,
            "title": {"text": ""},
            **link_plot.names_beside(run.links),
        }
        layout["yaxis3"]["range"] = [0, link_plot.round_trip_cap(run.links)]
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
                "x": rounded(centres),
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
    answered = frames.answered
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
                "x": rounded(axis.at(frames.unix_ms[chosen])),
                "y": rounded(np.minimum(latency, top), 2),
                "customdata": rounded(latency, 1),
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
    values = run.frames.latency_ms[run.frames.answered]
    highest = float(values.max()) if len(values) else 1.0
    deadline = run.deadline_ms or highest
    return 1.05 * max(min(highest, 3 * deadline), 1.1 * deadline)
