"""Fewer points that tell the same story: a page must stay small however long the run was."""

import numpy as np
from numpy.typing import NDArray


def evenly(which: NDArray[np.bool_], most: int) -> NDArray[np.int64]:
    """Indexes of at most `most` of the marked items, evenly spread, first and last among them."""
    found = np.flatnonzero(which)
    if len(found) <= most:
        return found
    return found[np.unique(np.linspace(0, len(found) - 1, most).round().astype(np.int64))]


def peaks(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Indexes of at most `most` items: the greatest of each run of neighbours; a run of NaN stays a gap."""
    if len(values) <= most:
        return np.arange(len(values))
    width = -(-len(values) // most)
    padded = np.full(-(-len(values) // width) * width, -np.inf)
    padded[: len(values)] = np.where(np.isnan(values), -np.inf, values)
    best = padded.reshape(-1, width).argmax(axis=1) + np.arange(0, len(padded), width)
    return np.asarray(best[best < len(values)], np.int64)


def quantiles(values: NDArray[np.float32], points: int = 240) -> tuple[list[float], list[float]]:
    """A cumulative distribution as (value, share in 0..1) with extra care for its upper end."""
    shares = np.unique(np.concatenate([np.linspace(0, 1, points), 1 - np.logspace(-4, -2, 20)]))
    return [round(float(v), 2) for v in np.quantile(values, shares)], [round(float(s), 5) for s in shares]
