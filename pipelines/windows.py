"""Sliding windows over observations: a time-bounded minimum and count- and time-bounded quantiles.

Sans-IO: the time of each observation is an argument, in µs of any one monotonic clock.
"""

from collections import deque
from collections.abc import Sequence
from math import ceil


def quantile(ordered: Sequence[float], q: float) -> float:
    """The nearest-rank quantile of an ascending, non-empty sequence: its ⌈q·n⌉-th value."""
    count = len(ordered)
    rank = min(count, ceil(q * count))
    return ordered[rank - 1 if rank > 0 else 0]


class MinWindow:
    """The smallest value of the last `span_us`, in amortised constant time (a monotonic queue)."""

    def __init__(self, span_us: int) -> None:
        self._span_us = span_us
        self._rising: deque[tuple[int, float]] = deque()

    def add(self, value: float, now_us: int) -> None:
        while self._rising and self._rising[-1][1] >= value:
            self._rising.pop()
        self._rising.append((now_us, value))

    def value(self, now_us: int) -> float | None:
        """The minimum, or None when nothing was observed. The last observation outlives the span."""
        rising = self._rising
        if not rising:
            return None
        while rising[0][0] < now_us - self._span_us and len(rising) > 1:
            rising.popleft()
        return rising[0][1]


class SampleWindow:
    """The last `size` values, none older than `span_us` (None: any age)."""

    def __init__(self, size: int, span_us: int | None = None) -> None:
        self._samples: deque[tuple[int, float]] = deque(maxlen=size)
        self._span_us = span_us

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, value: float, now_us: int) -> None:
        self._samples.append((now_us, value))

    def clear(self) -> None:
        self._samples.clear()

    def values(self, now_us: int) -> list[float]:
        """Values still inside the window, oldest first."""
        if self._span_us is not None:
            while self._samples and self._samples[0][0] < now_us - self._span_us:
                self._samples.popleft()
        return [v for _, v in self._samples]

    def quantile(self, q: float, now_us: int) -> float | None:
        """Nearest-rank quantile, or None when the window is empty."""
        ordered = sorted(self.values(now_us))
        return quantile(ordered, q) if ordered else None
