"""Accuracy against bytes as a page: every rung that was tried, the ladder through its own, near as a line.

One file that needs no network. plotly is imported here and nowhere else in a calibration.
"""

from collections.abc import Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from nearfar.calibrate.figures import Calibration, RungFigures
from nearfar.calibrate.rung_words import rung_words

_TICKS_KB = [digit * 10**power / 10 for power in range(6) for digit in (1, 2, 3, 5, 7)]
# Okabe and Ito's colours, told apart by colour-blind people too.
_BLUE, _ORANGE, _GREY, _VERMILION = "#0072B2", "#E69F00", "#999999", "#D55E00"


def write_plot(found: Calibration, ladder: Sequence[RungFigures], path: Path) -> None:
    """Raises OSError when the page cannot be written."""
    page = _figure(found, ladder).to_html(include_plotlyjs=True, full_html=True)
    path.write_text(page, encoding="utf-8")


def _figure(found: Calibration, ladder: Sequence[RungFigures]) -> Any:
    graph_objects: Any = import_module("plotly.graph_objects")
    figure = graph_objects.Figure()
    chosen = {figures.rung for figures in ladder}
    others = [figures for figures in found.rungs if figures.rung not in chosen]
    if others:
        figure.add_trace(_points(graph_objects, "tried", others, color=_GREY, mode="markers"))
    in_order = sorted(ladder, key=lambda figures: figures.bytes_mean)
    figure.add_trace(_points(graph_objects, "far, the ladder", in_order, color=_BLUE, mode="lines+markers"))
    if found.near is not None:
        lines = [(found.near, _ORANGE), *((small, _VERMILION) for small in found.smaller)]
        for near, color in lines:
            figure.add_hline(
                y=near.accuracy,
                line={"color": color, "width": 2, "dash": "dash"},
                annotation_text=f"near {escape(near.name)}: {near.accuracy:.3f}, {near.run_p50_us / 1000:.1f} ms",
                annotation_position="bottom right",
            )
    clips = ", ".join(Path(clip).name for clip in found.clips)
    figure.update_xaxes(title_text="kB per frame", type="log", tickvals=_TICKS_KB, ticktext=_TICKS_KB)
    figure.update_yaxes(title_text="accuracy, F1 at IoU 0.5")
    figure.update_layout(
        title={
            "text": f"What a frame of {escape(clips)} is worth, against what it weighs",
            "subtitle": {
                "text": f"{found.frames} pictures; reference: the {found.boxes} boxes {escape(found.far)} sees in "
                "them, nothing encoded"
            },
        },
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        margin={"t": 130},
        height=700,
        template="plotly_white",
        hovermode="closest",
    )
    return figure


def _points(graph_objects: Any, name: str, rungs: Sequence[RungFigures], *, color: str, mode: str) -> Any:
    return graph_objects.Scatter(
        name=name,
        mode=mode,
        x=[figures.bytes_mean / 1000 for figures in rungs],
        y=[figures.accuracy for figures in rungs],
        error_y={"array": [figures.ci95 for figures in rungs], "thickness": 1, "width": 2},
        text=[
            f"{rung_words(figures.rung)}<br>accuracy {figures.accuracy:.3f} ± {figures.ci95:.3f}"
            f"<br>{figures.bytes_mean / 1000:.1f} kB, p95 {figures.bytes_p95 / 1000:.1f} kB"
            f"<br>encode {figures.encode_p50_us / 1000:.1f} ms, far {figures.run_p50_us / 1000:.1f} ms"
            for figures in rungs
        ],
        hoverinfo="text",
        marker={"color": color, "size": 9},
        line={"color": color, "shape": "hv"},
    )
