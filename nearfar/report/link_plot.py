"""The link's part of the timeline: its round trips inside their band, and a ribbon of its states."""

from typing import Any

import numpy as np

from nearfar.report.axis import Axis
from nearfar.report.links import STATES, LinkHistory, Stretch
from nearfar.report.shapes import Note, Shape, across, band_across, beside, plain, rounded
from nearfar.report.thin import peaks

Trace = dict[str, Any]

_MOST_ROUND_TRIPS = 2000
_MOST_STRETCHES = 600
_STATE_COLORS = {"in budget": "@good", "over budget": "@warn", "no connection": "@bad"}


def round_trips(link: LinkHistory, axis: Axis) -> list[Trace]:
    chosen = peaks(link.rtt_ms, _MOST_ROUND_TRIPS)
    rtt = link.rtt_ms[chosen]
    top = round_trip_cap(link)
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "round trip",
            "showlegend": False,
            "yaxis": "y3",
            "x": rounded(axis.at(link.unix_ms[chosen])),
            "y": rounded(np.minimum(rtt, top), 2),
            "customdata": rounded(rtt, 1),
            "connectgaps": False,
            "line": {"color": "@ink", "width": 1.4},
            "marker": {"color": "@ink", "size": 3},
            "hovertemplate": "round trip %{customdata} ms<extra></extra>",
        }
    ]


def round_trip_cap(link: LinkHistory) -> float:
    """The top of the round-trip plot: the band is seen, a stray second does not flatten it."""
    seen = link.rtt_ms[~np.isnan(link.rtt_ms)]
    highest = float(seen.max()) if len(seen) else 0.0
    above = link.fall_back_above_ms or highest or 1.0
    return 1.05 * max(min(highest, 3 * above), 1.15 * above)


def states(link: LinkHistory, axis: Axis, *, end_ms: float) -> list[Trace]:
    """One thick line per state, with the reason of each stretch."""
    stretches = list(link.stretches(end_ms))
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
            words += [f"{state}{': ' if s.reason else ''}{plain(s.reason)}"] * 3 + [None]
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


def band(link: LinkHistory) -> tuple[list[Shape], list[Note]]:
    """The band of the round trip, and what its borders are; nothing when no line says it."""
    highest, lowest = link.fall_back_above_ms, link.return_below_ms
    if highest is None or lowest is None:
        return [], []
    shapes = [
        band_across(yref="y3", y=(lowest, highest), color="@band"),
        across(yref="y3", y=highest, color="@warn"),
        across(yref="y3", y=lowest, color="@good"),
    ]
    return shapes, [
        beside(yref="y3", y=highest, text="fall back"),
        beside(yref="y3", y=lowest, text="return"),
    ]


def _length(stretch: Stretch) -> float:
    return stretch.end_ms - stretch.start_ms
