"""Latency by answerer, where the time went, and what it cost in bytes: plotly JSON, colours by name."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.report.frames import PARTS
from nearfar.report.run import Run
from nearfar.report.shapes import at_foot, upright
from nearfar.report.thin import quantiles

Figure = dict[str, Any]

_STEPS = 400


def latency_cdf(run: Run) -> Figure | None:
    """The share of answers that were out by then, for each answerer, with the deadline; None without answers."""
    frames = run.frames
    traces = []
    right = run.deadline_ms or 0.0
    for name in ("far", "near", "tracked"):
        values = frames.latency_ms[frames.of(name) & frames.answered]
        if not len(values):
            continue
        x, y = quantiles(values)
        right = max(right, min(float(np.quantile(values, 0.999)), 3 * (run.deadline_ms or np.inf)))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"{name} ({len(values):,})",
                "x": x,
                "y": [100 * share for share in y],
                "line": {"color": f"@{name}", "width": 2.4},
                "hovertemplate": f"%{{y:.1f}} % of {name} within %{{x:.1f}} ms<extra></extra>",
            }
        )
    if not traces:
        return None
    shapes = []
    notes = []
    if run.deadline_ms is not None:
        shapes.append(upright(x=run.deadline_ms, color="@bad"))
        notes.append(at_foot(x=run.deadline_ms, text=f"deadline {run.deadline_ms:g} ms "))
    return {
        "data": traces,
        "layout": {
            "height": 350,
            "margin": {"l": 52, "r": 12, "t": 10, "b": 44},
            "legend": {"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0},
            "xaxis": {"title": {"text": "latency, ms"}, "range": [0, 1.06 * right], "zeroline": False},
            "yaxis": {"title": {"text": "answers out, %"}, "range": [0, 101], "zeroline": False},
            "shapes": shapes,
            "annotations": notes,
        },
    }


def timing_split(run: Run) -> Figure | None:
    """Mean ms per part, of all answers and of the slowest 1 %, near and far; None without answers."""
    frames = run.frames
    rows: list[tuple[str, NDArray[np.float32]]] = []
    for name in ("near", "far"):
        of = np.flatnonzero(frames.of(name) & frames.answered)
        if not len(of):
            continue
        slowest = of[np.argsort(frames.latency_ms[of], kind="stable")[-max(1, len(of) // 100) :]]
        rows.append((f"{name}, slowest 1 %", frames.parts[slowest].mean(axis=0)))
        rows.append((f"{name}, mean", frames.parts[of].mean(axis=0)))
    if not rows:
        return None
    traces = []
    for index, part in enumerate(PARTS):
        values = [float(parts[index]) for _, parts in rows]
        if not any(abs(v) >= 0.005 for v in values):
            continue
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": part,
                "y": [name for name, _ in rows],
                "x": [round(v, 3) for v in values],
                "marker": {"color": f"@part-{part}"},
                "hovertemplate": f"{part} %{{x:.1f}} ms<extra></extra>",
            }
        )
    return {
        "data": traces,
        "layout": {
            "height": 350,
            "barmode": "relative",
            "bargap": 0.35,
            "margin": {"l": 112, "r": 12, "t": 10, "b": 44},
            "legend": {"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0, "traceorder": "normal"},
            "xaxis": {"title": {"text": "ms"}, "zeroline": False},
            "yaxis": {"automargin": True},
        },
    }


def bytes_up(run: Run) -> Figure | None:
    """Megabytes sent over time beside what sending every frame the same way would have cost; None if none was."""
    frames = run.frames
    sent = frames.sent_bytes > 0
    if not sent.any():
        return None
    axis = run.axis
    at = np.linspace(run.start_ms, run.end_ms, _STEPS)
    up = np.concatenate([[0], np.cumsum(frames.sent_bytes, dtype=np.int64)])
    mean = float(frames.sent_bytes[sent].mean())
    before = np.searchsorted(frames.unix_ms, at, side="right")
    x = [round(float(v), 3) for v in axis.at(at)]
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "name": "every frame, sent the same way",
                "x": x,
                "y": [round(float(v), 4) for v in before * mean / 1e6],
                "line": {"color": "@muted", "width": 1.6, "dash": "dot"},
                "hovertemplate": "%{y:.2f} MB if every frame were sent<extra></extra>",
            },
            {
                "type": "scatter",
                "mode": "lines",
                "name": "sent",
                "x": x,
                "y": [round(float(v), 4) for v in up[before] / 1e6],
                "fill": "tozeroy",
                "fillcolor": "@far-soft",
                "line": {"color": "@far", "width": 2.4},
                "hovertemplate": "%{y:.2f} MB sent<extra></extra>",
            },
        ],
        "layout": {
            "height": 300,
            "margin": {"l": 52, "r": 12, "t": 10, "b": 44},
            "legend": {"orientation": "h", "y": -0.26, "yanchor": "top", "x": 0},
            "xaxis": {"title": {"text": axis.title}, "zeroline": False},
            "yaxis": {"title": {"text": "pictures up, MB"}, "rangemode": "tozero", "zeroline": False},
        },
    }


def bytes_per_frame(run: Run) -> Figure | None:
    """How large the pictures were that went up; None if none did."""
    sizes = run.frames.sent_bytes[run.frames.sent_bytes > 0] / 1000
    if not len(sizes):
        return None
    counts, edges = np.histogram(sizes, bins=min(40, max(1, len(np.unique(sizes)))))
    return {
        "data": [
            {
                "type": "bar",
                "name": "pictures",
                "showlegend": False,
                "x": [round(float(v), 3) for v in (edges[:-1] + edges[1:]) / 2],
                "y": counts.tolist(),
                "width": float(edges[1] - edges[0]) * 0.95,
                "marker": {"color": "@far"},
                "hovertemplate": "%{y} pictures of about %{x:.1f} kB<extra></extra>",
            }
        ],
        "layout": {
            "height": 300,
            "margin": {"l": 52, "r": 12, "t": 10, "b": 44},
            "xaxis": {"title": {"text": "kB per picture"}, "rangemode": "tozero", "zeroline": False},
            "yaxis": {"title": {"text": "pictures"}, "rangemode": "tozero", "zeroline": False},
        },
    }
