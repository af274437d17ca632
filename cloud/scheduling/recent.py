"""The last so many durations: their quantiles and their mean, kept up to date as each is added."""

from bisect import bisect_left, insort
from collections import deque

_LARGEST_SKEW = 2


class Recent:
    """`p50_us`, `p95_us` are nearest ranks; all are 0 before the first. `expected_us` is what many of them take, each: the
    mean, but at most twice the median, so that one stall of the machine is not expected again and again."""

    __slots__ = ("_latest", "_ordered", "_size", "_sum_us", "expected_us", "p50_us", "p95_us")

    def __init__(self, size: int) -> None:
        self._size = size
        self._latest: deque[int] = deque()
        self._ordered: list[int] = []
        self._sum_us = 0
        self.p50_us = 0
        self.p95_us = 0
        self.expected_us = 0

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, time_us: int) -> None:
        self._latest.append(time_us)
        insort(self._ordered, time_us)
        self._sum_us += time_us
        if len(self._latest) > self._size:
            oldest_us = self._latest.popleft()
            del self._ordered[bisect_left(self._ordered, oldest_us)]
            self._sum_us -= oldest_us
        count = len(self._ordered)
        self.p50_us = self._ordered[(count + 1) // 2 - 1]
        self.p95_us = self._ordered[-(-count * 95 // 100) - 1]
        self.expected_us = min(self._sum_us // count, _LARGEST_SKEW * self.p50_us)
