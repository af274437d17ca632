"""What a bottleneck can carry, as a rising curve: bytes offered since the start, and its inverse.

A queue in front of it is then two numbers: serving S bytes that come at t ends at
`reached_us(max(served, offered(t)) + S)`. So a frame of a hundred packets costs two look-ups.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import ceil
from typing import Protocol

NEVER_US = 1 << 60
PACKET_BYTES = 1500
LEAST_BYTES_PER_US = 1e-6
"""8 bit/s; below it a link carries nothing."""


class Capacity(Protocol):
    def offered(self, at_us: int) -> float:
        """Bytes that could have crossed from 0 until `at_us`."""
        ...

    def reached_us(self, total_bytes: float) -> int:
        """The first time at which `offered` is at least `total_bytes`; NEVER_US if it never is."""
        ...


class Opportunities:
    """mahimahi's model: at each stamp one packet of 1500 bytes may leave; what is not used is lost. Looped with
    the last stamp as period."""

    def __init__(self, stamps_us: Sequence[int]) -> None:
        if not stamps_us or stamps_us[-1] <= 0:
            raise ValueError("a trace needs a stamp after 0")
        self._stamps_us = list(stamps_us)
        self._period_us = stamps_us[-1]

    def offered(self, at_us: int) -> float:
        if at_us < 0:
            return 0.0
        loops, within_us = divmod(at_us, self._period_us)
        return float(PACKET_BYTES * (loops * len(self._stamps_us) + bisect_right(self._stamps_us, within_us)))

    def reached_us(self, total_bytes: float) -> int:
        packets = max(1, ceil(total_bytes / PACKET_BYTES - 1e-9))
        loops, at = divmod(packets - 1, len(self._stamps_us))
        return loops * self._period_us + self._stamps_us[at]


class Rates:
    """`bytes_per_us[i]` from `times_us[i]` on (the first is 0); with `period_us` the whole repeats, else the last
    rate holds for ever."""

    def __init__(
        self, times_us: Sequence[int], bytes_per_us: Sequence[float], *, period_us: int | None = None
    ) -> None:
        if not times_us or times_us[0] != 0 or len(times_us) != len(bytes_per_us):
            raise ValueError("rates need one value for each time, the first at 0")
        rates = [rate if rate >= LEAST_BYTES_PER_US else 0.0 for rate in bytes_per_us]
        if min(bytes_per_us) < 0 or (period_us is not None and not any(rates)):
            raise ValueError("rates are not negative, and some are above 0")
        self._times_us = list(times_us)
        self._rates = rates
        self._period_us = period_us
        self._totals = [0.0]
        for i in range(1, len(times_us)):
            self._totals.append(self._totals[-1] + self._rates[i - 1] * (times_us[i] - times_us[i - 1]))
        last_us = 0 if period_us is None else period_us - times_us[-1]
        self._per_period = self._totals[-1] + self._rates[-1] * last_us

    @classmethod
    def constant(cls, mbit_per_s: float) -> "Rates":
        return cls([0], [mbit_per_s / 8])

    def offered(self, at_us: int) -> float:
        if at_us < 0:
            return 0.0
        base = 0.0
        if self._period_us is not None:
            loops, at_us = divmod(at_us, self._period_us)
            base = loops * self._per_period
        i = bisect_right(self._times_us, at_us) - 1
        return base + self._totals[i] + self._rates[i] * (at_us - self._times_us[i])

    def reached_us(self, total_bytes: float) -> int:
        base_us = 0
        if self._period_us is not None:
            loops = max(0, ceil(total_bytes / self._per_period - 1e-12) - 1)
            total_bytes -= loops * self._per_period
            base_us = loops * self._period_us
        # The last segment that starts below the total: its rate is above 0, or the total is not reached in it.
        i = max(0, bisect_left(self._totals, total_bytes) - 1)
        if not self._rates[i]:
            return base_us if total_bytes <= self._totals[i] else NEVER_US
        return base_us + ceil(self._times_us[i] + (total_bytes - self._totals[i]) / self._rates[i] - 1e-6)
