"""What may still be sent on a link that costs money: token buckets per hour and per day.

Everything sent is charged, whoever sent it; a bucket may go into debt for what was not asked for. The last
part of a bucket is kept for what matters more: low priority stops first.
"""

from collections.abc import Mapping

from pipelines.result import Priority

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
KEPT_BACK = {Priority.LOW: 0.2, Priority.NORMAL: 0.1, Priority.HIGH: 0.02}
"""Share of a full bucket that a priority leaves to the higher ones; the last of it is for pings and results."""

SPARING_BELOW = 0.5
PINGS_SHARE = 0.25
"""Below the first share of a full bucket pings take the second of what refills: else they would keep a small budget
from ever letting a frame go again."""


class TokenBucket:
    """Holds at most `capacity` tokens, full at first; refills evenly in `span_us`."""

    def __init__(self, capacity: int, span_us: int) -> None:
        self._capacity = capacity
        self._span_us = span_us
        self._level = float(capacity)
        self._at_us: int | None = None

    def level(self, now_us: int) -> float:
        if self._at_us is not None:
            refill = self._capacity * max(0, now_us - self._at_us) / self._span_us
            self._level = min(float(self._capacity), self._level + refill)
        self._at_us = now_us
        return self._level

    def spend(self, tokens: int, now_us: int) -> None:
        self._level = self.level(now_us) - tokens

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def span_us(self) -> int:
        return self._span_us

    def used(self, now_us: int) -> int:
        """What is missing to a full bucket; more than it holds when in debt."""
        return self._capacity - int(self.level(now_us))

    def left(self, *, kept_back: float, now_us: int) -> int:
        """What may be spent while the share `kept_back` of a full bucket stays."""
        return int(self.level(now_us) - kept_back * self._capacity)


class DataBudget:
    """No limit where both are None."""

    def __init__(self, *, bytes_per_hour: int | None = None, bytes_per_day: int | None = None) -> None:
        limits = ((bytes_per_hour, HOUR_US), (bytes_per_day, DAY_US))
        self._buckets = [TokenBucket(size, span_us) for size, span_us in limits if size is not None]
        self.limited = bool(self._buckets)
        """Whether there is any limit: then pings may have to be spaced."""
        self.spent_bytes = 0

    def spend(self, size_bytes: int, now_us: int) -> None:
        self.spent_bytes += size_bytes
        for bucket in self._buckets:
            bucket.spend(size_bytes, now_us)

    def used_bytes(self, now_us: int) -> dict[int, int]:
        """By span in µs: what was spent and is not refilled."""
        return {bucket.span_us: bucket.used(now_us) for bucket in self._buckets}

    @property
    def smallest_bytes(self) -> int:
        """What the smallest bucket holds when it is full; 0 without a limit."""
        return min((bucket.capacity for bucket in self._buckets), default=0)

    def resume(self, used_bytes: Mapping[int, int], now_us: int) -> None:
        """Go on where an earlier process ended, of which `used_bytes` was the last word."""
        for bucket in self._buckets:
            bucket.spend(used_bytes.get(bucket.span_us, 0), now_us)

    def left_bytes(self, priority: Priority, now_us: int) -> int | None:
        """What a frame of `priority` may spend, None = without limit."""
        if not self._buckets:
            return None
        kept_back = KEPT_BACK[priority]
        return min([bucket.left(kept_back=kept_back, now_us=now_us) for bucket in self._buckets])

    def spacing_us(self, size_bytes: int, now_us: int) -> int:
        """How far apart pings of `size_bytes` must be, 0 while there is plenty."""
        if not self._buckets:
            return 0
        sparing = [b for b in self._buckets if b.level(now_us) < SPARING_BELOW * b.capacity]
        return max((int(size_bytes * b.span_us / (PINGS_SHARE * b.capacity)) for b in sparing), default=0)

    def rest_bytes(self, now_us: int) -> int | None:
        """What there is, at most 0 when in debt, None = without limit."""
        return min((int(bucket.level(now_us)) for bucket in self._buckets), default=None)

    def spent(self, now_us: int) -> bool:
        """Whether nothing but the most necessary may be sent."""
        return any(bucket.level(now_us) <= 0 for bucket in self._buckets)
