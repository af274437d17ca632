"""Lines, areas and words drawn over a plot, as plain plotly JSON; colours are names (`@far`) that the page resolves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = dict[str, Any]
Note = dict[str, Any]
Span = tuple[float, float]
_WHOLE: Span = (0, 1)


def across(*, yref: str, y: float, color: str) -> Shape:
    """A dashed line at `y` over the whole width."""
    return _dashed(xref="paper", x=_WHOLE, yref=yref, y=(y, y), color=color)


def upright(*, x: float, color: str) -> Shape:
    """A dashed line at `x` over the whole height."""
    return _dashed(xref="x", x=(x, x), yref="paper", y=_WHOLE, color=color)


def band_across(*, yref: str, y: Span, color: str) -> Shape:
    """An area from `y[0]` to `y[1]` over the whole width, behind everything."""
    return _area(xref="paper", x=_WHOLE, yref=yref, y=y, color=color)


def band_upright(*, x: Span, color: str) -> Shape:
    """An area from `x[0]` to `x[1]` over the whole height, behind everything."""
    return _area(xref="x", x=x, yref="paper", y=_WHOLE, color=color)


def beside(*, yref: str, y: float, text: str) -> Note:
    """Words at the right end of a line across."""
    return _note(text, xref="paper", x=1.005, xanchor="left", yref=yref, y=y)


def above(*, x: float, text: str) -> Note:
    """Words over the plot."""
    return _note(text, size_px=12, xref="x", x=x, yref="paper", y=1.0, yanchor="bottom")


def at_foot(*, x: float, text: str) -> Note:
    """Words at the lower end of an upright line, left of it."""
    return _note(text, xref="x", x=x, xanchor="right", yref="paper", y=0.02, yanchor="bottom")


def plain(text: str) -> str:
    """Plotly reads a few tags in words; those from outside are only words."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def rounded(values: NDArray[Any], digits: int = 3) -> list[float | None]:
    """Short numbers for JSON; NaN is null, a gap."""
    return [None if np.isnan(v) else round(float(v), digits) for v in values]


def _dashed(*, xref: str, x: Span, yref: str, y: Span, color: str) -> Shape:
    line = {"color": color, "width": 1.2, "dash": "dash"}
    return _between(xref=xref, x=x, yref=yref, y=y) | {"type": "line", "line": line}


def _area(*, xref: str, x: Span, yref: str, y: Span, color: str) -> Shape:
    drawn = {"type": "rect", "layer": "below", "fillcolor": color, "line": {"width": 0}}
    return _between(xref=xref, x=x, yref=yref, y=y) | drawn


def _between(*, xref: str, x: Span, yref: str, y: Span) -> Shape:
    return {"xref": xref, "x0": x[0], "x1": x[1], "yref": yref, "y0": y[0], "y1": y[1]}


def _note(text: str, *, size_px: int = 11, **where: Any) -> Note:
    return {**where, "text": plain(text), "showarrow": False, "font": {"size": size_px, "color": "@muted"}}
