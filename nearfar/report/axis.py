"""The time axis of a run: where it begins, in which unit it is told, and into which buckets it is cut."""

import datetime as dt
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_BUCKETS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
MOST_BUCKETS = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """`start_ms` and `end_ms` in unix ms; `unit_ms` is one step of the axis, called `unit`."""

    start_ms: float
    end_ms: float
    unit: str
    unit_ms: float

    @classmethod
    def over(cls, *, start_ms: float, end_ms: float) -> "Axis":
        span_s = (end_ms - start_ms) / 1000
        for unit, unit_s, up_to_s in (
            ("seconds", 1, 600),
            ("minutes", 60, 6 * 3600),
            ("hours", 3600, 5 * 86_400),
        ):
            if span_s <= up_to_s:
                return cls(start_ms=start_ms, end_ms=end_ms, unit=unit, unit_ms=unit_s * 1000.0)
        return cls(start_ms=start_ms, end_ms=end_ms, unit="days", unit_ms=86_400_000.0)

    @property
    def title(self) -> str:
        return f"{self.unit} since {utc(self.start_ms)}"

    @property
    def end(self) -> float:
        """The end of the run on the axis."""
        return (self.end_ms - self.start_ms) / self.unit_ms

    def at(self, unix_ms: ArrayLike) -> NDArray[np.float64]:
        """Places on the axis."""
        return (np.asarray(unix_ms, np.float64) - self.start_ms) / self.unit_ms

    @property
    def bucket_ms(self) -> float:
        """The shortest width of _BUCKETS_S that cuts the run into at most MOST_BUCKETS."""
        span_ms = self.end_ms - self.start_ms
        for width_s in _BUCKETS_S:
            if span_ms <= MOST_BUCKETS * width_s * 1000:
                return width_s * 1000.0
        return span_ms / MOST_BUCKETS + 1

    def buckets(self, unix_ms: NDArray[np.float64]) -> NDArray[np.int64]:
        """The bucket each time lies in, from 0."""
        return np.floor((unix_ms - self.start_ms) / self.bucket_ms).astype(np.int64)

    @property
    def bucket_count(self) -> int:
        return int((self.end_ms - self.start_ms) / self.bucket_ms) + 1


def utc(unix_ms: float) -> str:
    """For people: to the second, UTC."""
    at = dt.datetime.fromtimestamp(unix_ms / 1000, tz=dt.UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def span(ms: float) -> str:
    """A duration in words."""
    seconds = ms / 1000
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = seconds / 60
    return f"{minutes:.3g} min" if minutes < 120 else f"{minutes / 60:.3g} h"
