"""A value that changes at known times and holds in between."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise


class Steps:
    """`values[i]` holds from `times_us[i]` on; the first also before. With `period_us` the whole repeats."""

    def __init__(
        self, times_us: Sequence[int], values: Sequence[float], *, period_us: int | None = None
    ) -> None:
        if not times_us or len(times_us) != len(values):
            raise ValueError("steps need one value for each time")
        if any(b <= a for a, b in pairwise(times_us)):
            raise ValueError("times of steps must rise")
        self._times_us = list(times_us)
        self._values = list(values)
        self._period_us = period_us
        self._constant = len(set(values)) == 1

    @classmethod
    def constant(cls, value: float) -> "Steps":
        return cls([0], [value])

    def at(self, when_us: int) -> float:
        if self._constant:
            return self._values[0]
        if self._period_us is not None:
            when_us %= self._period_us
        return self._values[max(0, bisect_right(self._times_us, when_us) - 1)]
