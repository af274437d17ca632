"""What the link would do to a frame sent now, by what it did to those before and to those still out.

    t(i) = round trip + extra(i) + stretch(i) · (bytes still crossing + size) / bandwidth + worker(i)
    p(on time) = share of the recent past i, weighted by recency, whose t(i) is within what remains

A past in which those still out would long be back speaks of another link than this one: it does not count. So p
falls while an answer is late, and a stalled link has p = 0.
"""

from collections.abc import Sequence
from itertools import compress
from math import inf
from typing import NamedTuple

REFUTED_AFTER_US = 60_000
"""So much later than in a past state means another state: between packets a radio link pauses that long."""


NEWEST = 9
"""So many of the last frames say how long one usually takes."""


class Nominal(NamedTuple):
    """What a message was expected to take on the network as it left, in µs: the round trip of a small one, what
    waited ahead of it, and itself."""

    rtt_us: float
    ahead_us: float = 0.0
    crossing_us: float = 0.0

    @property
    def total_us(self) -> float:
        return self.rtt_us + self.ahead_us + self.crossing_us


class Residual(NamedTuple):
    """How one frame differed from its nominal: `extra_us` more until its head was there and back, its body
    `stretch` times as long, `worker_us` at the worker. `weight`: how much it counts."""

    extra_us: float
    stretch: float
    worker_us: int
    weight: float = 1.0


class Unanswered(NamedTuple):
    """A frame or a ping (`size_bytes` 0) that is out, and of which nothing that came back says that it crossed."""

    sent_us: int
    size_bytes: int
    nominal: Nominal


Columns = tuple[Sequence[float], Sequence[float], Sequence[int], Sequence[float]]
"""`Residual`s, field by field: a forecast looks at dozens of them."""


class Past:
    """What recent frames say of a link, newest last, and what none of it is below or above."""

    __slots__ = ("columns", "least", "most", "weight")

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        extra_us, stretch, worker_us, weights = columns
        self.weight: float = sum(weights)
        self.least = min(extra_us), min(stretch), min(worker_us)
        self.most = max(extra_us), max(stretch), max(worker_us)


class Forecast:
    """The link at one moment, asked about frames of several sizes. `waiting_bytes` go before such a frame.

    Sums are taken in the order of the past and bounds only where they leave no doubt: what is said is the same
    however it was found.
    """

    __slots__ = (
        "_base_us",
        "_bytes_per_us",
        "_columns",
        "_least_slope",
        "_least_us",
        "_most_slope",
        "_most_us",
        "_out_us",
        "_rtt_us",
        "_since_us",
        "_slopes",
        "_waiting_us",
        "_weight",
    )

    def __init__(
        self,
        past: Past,
        *,
        rtt_us: float,
        bytes_per_us: float,
        unanswered: Sequence[Unanswered],
        waiting_bytes: int,
        now_us: int,
    ) -> None:
        self._rtt_us = rtt_us
        self._bytes_per_us = bytes_per_us
        self._waiting_us = waiting_us = waiting_bytes / bytes_per_us
        self._columns, self._weight = past.columns, past.weight
        out_us = since_us = 0.0
        if unanswered:
            first = unanswered[0]
            since_us = now_us - first.sent_us
            if since_us > REFUTED_AFTER_US and _refuted(*past.least, unanswered, now_us):
                self._columns = _unrefuted(past.columns, unanswered, now_us)
                self._weight = sum(self._columns[3])
            out_us = first.nominal.ahead_us + sum([u.size_bytes for u in unanswered]) / bytes_per_us
        self._out_us, self._since_us = out_us, since_us
        # As `_take_ways` does it, which is not called for two: this is done for every frame and link.
        extra_us, stretch, worker_us = past.least
        base_us = rtt_us + extra_us + worker_us
        if stretch * out_us > since_us:
            base_us += stretch * out_us - since_us
        self._least_us, self._least_slope = base_us + stretch * waiting_us, stretch / bytes_per_us
        extra_us, stretch, worker_us = past.most
        base_us = rtt_us + extra_us + worker_us
        if stretch * out_us > since_us:
            base_us += stretch * out_us - since_us
        self._most_us, self._most_slope = base_us + stretch * waiting_us, stretch / bytes_per_us
        # The ways the link may be, one a state: a frame takes the first + its size · the second µs.
        self._base_us: Sequence[float] = ()
        self._slopes: Sequence[float] = ()

    def p_on_time(self, size_bytes: int, remaining_us: int) -> float:
        """Probability in 0..1 that the reply of a frame sent now arrives within `remaining_us`."""
        if remaining_us <= 0 or not self._weight:
            return 0.0
        if self._most_us + self._most_slope * size_bytes <= remaining_us:
            return 1.0
        if self._least_us + self._least_slope * size_bytes > remaining_us:
            return 0.0
        if not self._base_us:
            self._take_ways()
        ways = zip(self._base_us, self._slopes, self._columns[3])  # noqa: B905 - of one length; this is asked often
        within = sum([weight for base, slope, weight in ways if base + slope * size_bytes <= remaining_us])
        return min(1.0, within / self._weight)

    def possible(self, size_bytes: int, remaining_us: int) -> bool:
        """Whether `p_on_time` is above 0."""
        if remaining_us <= 0 or not self._weight:
            return False
        if self._least_us + self._least_slope * size_bytes > remaining_us:
            return False
        if not self._base_us:
            self._take_ways()
        for base, slope in zip(self._base_us, self._slopes):  # noqa: B905 - as above
            if base + slope * size_bytes <= remaining_us:
                return True
        return False

    def completion_us(self, size_bytes: int) -> float:
        """The median time until a frame sent now would be back, of the newest few states; infinite if there are
        none."""
        if not self._weight:
            return inf
        if not self._base_us:
            self._take_ways()
        newest = zip(self._base_us[-NEWEST:], self._slopes[-NEWEST:])  # noqa: B905 - as above
        times = sorted([base + slope * size_bytes for base, slope in newest])
        return times[len(times) // 2]

    def _take_ways(self) -> None:
        rtt_us, bytes_per_us = self._rtt_us, self._bytes_per_us
        out_us, since_us, waiting_us = self._out_us, self._since_us, self._waiting_us
        extra_us, stretch, worker_us, _ = self._columns
        self._slopes = [s / bytes_per_us for s in stretch]
        if out_us == 0.0 and waiting_us == 0.0:
            self._base_us = [rtt_us + e + w for e, w in zip(extra_us, worker_us)]  # noqa: B905 - as above
        else:
            self._base_us = [
                rtt_us + e + w + (s * out_us - since_us if s * out_us > since_us else 0.0) + s * waiting_us
                for e, s, w in zip(extra_us, stretch, worker_us)  # noqa: B905 - as above
            ]


def _refuted(
    extra_us: float, stretch: float, worker_us: int, unanswered: Sequence[Unanswered], now_us: int
) -> bool:
    """Whether something that is out would long be back, were the link as it was then."""
    for sent_us, size_bytes, (trip_us, ahead_us, crossing_us) in unanswered:
        back_us = sent_us + trip_us + extra_us + stretch * (ahead_us + crossing_us)
        if back_us + (worker_us if size_bytes else 0) + REFUTED_AFTER_US <= now_us:
            return True
    return False


def _unrefuted(columns: Columns, unanswered: Sequence[Unanswered], now_us: int) -> Columns:
    """The states that are not `_refuted`, one fact after the other: most often there is one."""
    for sent_us, size_bytes, (trip_us, ahead_us, crossing_us) in unanswered:
        there_us, lane_us, counts = sent_us + trip_us, ahead_us + crossing_us, 1 if size_bytes else 0
        kept = [
            there_us + e + s * lane_us + counts * w + REFUTED_AFTER_US > now_us
            for e, s, w in zip(*columns[:3])  # noqa: B905 - of one length
        ]
        if not all(kept):
            extra_us, stretch, worker_us, weights = columns
            columns = (
                list(compress(extra_us, kept)),
                list(compress(stretch, kept)),
                list(compress(worker_us, kept)),
                list(compress(weights, kept)),
            )
    return columns
