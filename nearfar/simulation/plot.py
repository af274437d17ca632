"""The table as a page: on-time F1 and bytes by policy and trace, and whether p says what happens.

One file that needs no network. plotly is imported here and nowhere else in the simulation.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from nearfar.simulation.summary import Summary
from pipelines.errors import ConfigError

PANELS = (
    ("on-time F1", "f1"),
    ("on time, share of frames", "on_time"),
    ("kB per frame", "kb_per_frame"),
    ("near ms per frame", "near_ms_per_frame"),
)


def write_plot(summaries: Sequence[Summary], path: Path) -> None:
    """Raises ConfigError without the `report` extra."""
    path.write_text(_figure(summaries).to_html(include_plotlyjs=True, full_html=True), encoding="utf-8")


def _figure(summaries: Sequence[Summary]) -> Any:
    try:
        graph_objects: Any = import_module("plotly.graph_objects")
        subplots: Any = import_module("plotly.subplots")
    except ModuleNotFoundError as error:
        raise ConfigError(f"--plot needs {error.name}: pip install 'nearfar[report]'") from error
    policies = list(dict.fromkeys(summary.policy for summary in summaries))
    titles = [*(title for title, _ in PANELS), "calibration: share on time by p"]
    figure = subplots.make_subplots(rows=len(titles), cols=1, subplot_titles=titles, vertical_spacing=0.06)
    for row, (_, name) in enumerate(PANELS, 1):
        for policy in policies:
            own = [summary for summary in summaries if summary.policy == policy]
            figure.add_trace(
                graph_objects.Bar(
                    name=policy,
                    x=[summary.trace for summary in own],
                    y=[getattr(summary, name) for summary in own],
                    legendgroup=policy,
                    showlegend=row == 1,
                    marker_color=_colour(policies.index(policy)),
                ),
                row=row,
                col=1,
            )
    last = len(titles)
    for summary in summaries:
        if summary.calibration:
            figure.add_trace(
                graph_objects.Scatter(
                    name=f"{summary.policy}, {summary.trace}",
                    x=[bin_.p_mean for bin_ in summary.calibration],
                    y=[bin_.on_time for bin_ in summary.calibration],
                    text=[f"{bin_.frames} frames" for bin_ in summary.calibration],
                    mode="lines+markers",
                    legendgroup=summary.policy,
                    showlegend=False,
                    marker_color=_colour(policies.index(summary.policy)),
                ),
                row=last,
                col=1,
            )
    figure.update_xaxes(range=[0, 1], title_text="p when sent", row=last, col=1)
    figure.update_yaxes(range=[0, 1], row=last, col=1)
    figure.update_layout(
        title="nearfar simulate", height=320 * last, barmode="group", template="plotly_white"
    )
    return figure


def _colour(number: int) -> str:
    # Okabe and Ito's colours, told apart by colour-blind people too.
    colours = ("#0072B2", "#CC79A7", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#000000", "#F0E442")
    return colours[number % len(colours)]
