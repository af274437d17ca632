"""The links' part of the timeline: their round trips inside the band, and a ribbon of states for each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearfar.report.axis import Axis
from nearfar.report.links import STATES, LinkHistory, Stretch
from nearfar.report.shapes import Note, Shape, across, band_across, beside, plain, rounded
from nearfar.report.thin import peaks

Trace = dict[str, Any]

_MOST_ROUND_TRIPS = 2000
_MOST_STRETCHES = 600
_DASHES = ("solid", "dot", "dash", "dashdot")
_STATE_COLORS = {"in budget": "@good", "over budget": "@warn", "no connection": "@bad"}


def round_trips(links: Sequence[LinkHistory], axis: Axis) -> list[Trace]:
    """A line per link, each drawn in a way of its own."""
    top = round_trip_cap(links)
    traces = []
    for number, link in enumerate(links):
        chosen = peaks(link.rtt_ms, _MOST_ROUND_TRIPS)
        rtt = link.rtt_ms[chosen]
        name = f"round trip {link.name}" if len(links) > 1 else "round trip"
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "showlegend": len(links) > 1,
                "yaxis": "y3",
                "x": rounded(axis.at(link.unix_ms[chosen])),
                "y": rounded(np.minimum(rtt, top), 2),
                "customdata": rounded(rtt, 1),
                "connectgaps": False,
                "line": {"color": "@ink", "width": 1.4, "dash": _DASHES[number % len(_DASHES)]},
                "marker": {"color": "@ink", "size": 3},
                "hovertemplate": f"{name} %{{customdata}} ms<extra></extra>",
            }
        )
    return traces


def round_trip_cap(links: Sequence[LinkHistory]) -> float:
    """The top of the round-trip plot: the band is seen, a stray second does not flatten it."""
    seen = [float(np.nanmax(link.rtt_ms)) for link in links if not np.isnan(link.rtt_ms).all()]
    highest = max(seen, default=0.0)
    above = next((link.fall_back_above_ms for link in links), None) or highest or 1.0
    return 1.05 * max(min(highest, 3 * above), 1.15 * above)


def states(links: Sequence[LinkHistory], axis: Axis, *, end_ms: float) -> list[Trace]:
    """One thick line per state and link, with the reason of each stretch; a row for each link, the first on top."""
    traces = []
    shown: set[str] = set()
    for row, link in enumerate(links):
        stretches = list(link.stretches(end_ms))
        if len(stretches) > _MOST_STRETCHES:  # a link that flapped for days: the longest ones say it
            stretches = sorted(stretches, key=_length, reverse=True)[:_MOST_STRETCHES]
            stretches.sort(key=lambda s: s.start_ms)
        for state in STATES:
            mine = [s for s in stretches if s.state == state]
            if not mine:
                continue
            x: list[float | None] = []
            words: list[str | None] = []
            whose = f"{plain(link.name)}: " if len(links) > 1 else ""
            for s in mine:
                left, right = (round(float(v), 3) for v in axis.at([s.start_ms, s.end_ms]))
                x += [left, (left + right) / 2, right, None]
                words += [f"{whose}{state}{': ' if s.reason else ''}{plain(s.reason)}"] * 3 + [None]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"link {state}",
                    "legendgroup": f"link {state}",
                    "showlegend": state not in shown,
                    "yaxis": "y4",
                    "x": x,
                    "y": [None if v is None else -row for v in x],
                    "text": words,
                    "line": {"color": _STATE_COLORS[state], "width": max(5, 16 // len(links))},
                    "hovertemplate": "%{text}<extra></extra>",
                }
            )
            shown.add(state)
    return traces


def names_beside(links: Sequence[LinkHistory]) -> Trace:
    """The axis of the states: the name of each link beside its row, nothing beside one that is alone."""
    if len(links) < 2:
        return {"showticklabels": False}
    rows = [-row for row in range(len(links))]
    return {"tickmode": "array", "tickvals": rows, "ticktext": [plain(link.name) for link in links]}


def band(links: Sequence[LinkHistory]) -> tuple[list[Shape], list[Note]]:
    """The band of the round trip, the same for all links, and what its borders are; nothing when no line says it."""
    said = links[0] if links else None
    highest = said.fall_back_above_ms if said is not None else None
    lowest = said.return_below_ms if said is not None else None
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
