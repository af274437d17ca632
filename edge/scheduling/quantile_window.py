"""The last `size` values and their quantiles, kept in order: a look costs nothing, an observation little."""

from bisect import bisect_left, insort
from collections import deque

from pipelines.windows import quantile


class QuantileWindow:
    def __init__(self, size: int) -> None:
        self._size = size
        self._in_time: deque[int] = deque()
        self._ordered: list[int] = []

    def __len__(self) -> int:
        return len(self._in_time)

    def add(self, value: int) -> None:
        in_time, ordered = self._in_time, self._ordered
        if len(in_time) == self._size:
            oldest = in_time.popleft()
            if oldest == value:
                in_time.append(value)
                return
            del ordered[bisect_left(ordered, oldest)]
        in_time.append(value)
        insort(ordered, value)

    def quantile(self, q: float) -> int | None:
        """Nearest-rank quantile, or None when nothing was observed."""
        return int(quantile(self._ordered, q)) if self._ordered else None
