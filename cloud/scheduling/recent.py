"""The last so many durations: their quantiles and their mean, kept up to date as each is added."""

from bisect import bisect_left, insort
from collections import deque

_LARGEST_SKEW = 2


class Recent:
    """`p50_us`, `p95_us` are nearest ranks; all are 0 before the first. `expected_us` is what many of them take,
    each: the mean, but at most twice the median, so that one stall of the machine is not expected again and again."""

    __slots__ = ("_latest", "_ordered", "_ranks", "_size", "_sum_us", "expected_us", "p50_us", "p95_us")

    def __init__(self, size: int) -> None:
        self._size = size
        self._latest: deque[int] = deque()
        self._ordered: list[int] = []
        self._sum_us = 0
        self._ranks = (0, 0)
        self.p50_us = 0
        self.p95_us = 0
        self.expected_us = 0

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, time_us: int) -> None:
        latest, ordered = self._latest, self._ordered
        latest.append(time_us)
        insort(ordered, time_us)
        count = len(ordered)
        if count <= self._size:
            self._sum_us += time_us
            self._ranks = (count + 1) // 2 - 1, -(-count * 95 // 100) - 1
        else:
            oldest_us = latest.popleft()
            del ordered[bisect_left(ordered, oldest_us)]
            self._sum_us += time_us - oldest_us
            count -= 1
        half, most = self._ranks
        self.p50_us = p50_us = ordered[half]
        self.p95_us = ordered[most]
        mean_us = self._sum_us // count
        self.expected_us = min(_LARGEST_SKEW * p50_us, mean_us)
