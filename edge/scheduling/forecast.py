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


class Outlook:
    """The link with what is out on it: all that stays as it is until something is heard, sent or measured, however
    often it is asked meanwhile. `unanswered`: oldest first. Lists are made when first needed, in the order of the past."""

    __slots__ = (
        "_least_refuted_us",
        "_refuted_us",
        "bytes_per_us",
        "least",
        "most",
        "out_stretched_us",
        "out_us",
        "past",
        "plain_us",
        "rtt_us",
        "slopes",
        "unanswered",
    )

    def __init__(
        self, past: Past, *, rtt_us: float, bytes_per_us: float, unanswered: Sequence[Unanswered]
    ) -> None:
        self.past = past
        self.rtt_us = rtt_us
        self.bytes_per_us = bytes_per_us
        self.unanswered = unanswered
        self.out_us = 0.0
        if unanswered:
            sizes_us = sum([u.size_bytes for u in unanswered]) / bytes_per_us
            self.out_us = unanswered[0].nominal.ahead_us + sizes_us
        self.least = self._state(past.least)
        self.most = self._state(past.most)
        self.plain_us: Sequence[float] = ()  # of each state, on an empty link
        self.out_stretched_us: Sequence[float] = ()  # until what is out has crossed, from when it was sent
        self.slopes: Sequence[float] = ()  # µs a byte
        self._least_refuted_us: float | None = None
        self._refuted_us: Sequence[float] = ()

    def take_states(self) -> None:
        """Fill `plain_us`, `out_stretched_us` and `slopes`."""
        rtt_us, bytes_per_us, out_us = self.rtt_us, self.bytes_per_us, self.out_us
        extra_us, stretch, worker_us, _ = self.past.columns
        self.plain_us = [rtt_us + e + w for e, w in zip(extra_us, worker_us)]  # noqa: B905 - of one length
        self.slopes = [s / bytes_per_us for s in stretch]
        self.out_stretched_us = [s * out_us for s in stretch]

    def unrefuted(self, now_us: int) -> Sequence[bool] | None:
        """Which states hold: in none of them would something that is out be long back. None = all do."""
        if self._least_refuted_us is None:
            extra_us, stretch, worker_us = self.past.least
            self._least_refuted_us = min(self._refuted([extra_us], [stretch], [worker_us]))
        if now_us < self._least_refuted_us:
            return None
        if not self._refuted_us:
            self._refuted_us = self._refuted(*self.past.columns[:3])
        return [refuted_us > now_us for refuted_us in self._refuted_us]

    def _refuted(
        self, extra_us: Sequence[float], stretch: Sequence[float], worker_us: Sequence[int]
    ) -> list[float]:
        """From when on each state is refuted, by whatever refutes it first."""
        soonest_us: list[float] = []
        for sent_us, size_bytes, (trip_us, ahead_us, crossing_us) in self.unanswered:
            there_us, lane_us, counts = sent_us + trip_us, ahead_us + crossing_us, 1 if size_bytes else 0
            from_us = [
                there_us + e + s * lane_us + counts * w + REFUTED_AFTER_US
                for e, s, w in zip(extra_us, stretch, worker_us)  # noqa: B905 - of one length
            ]
            soonest_us = [*map(min, soonest_us, from_us)] if soonest_us else from_us
        return soonest_us

    def _state(self, state: tuple[float, float, int]) -> tuple[float, float, float, float]:
        """What an extreme of the past says: on the empty link, of what is out, per waiting µs, per byte."""
        extra_us, stretch, worker_us = state
        plain_us = self.rtt_us + extra_us + worker_us
        return plain_us, stretch * self.out_us, stretch, stretch / self.bytes_per_us


class Forecast:
    """The link at one moment, asked about frames of several sizes. `waiting_bytes` go before such a frame.

    Sums are taken in the order of the past and bounds only where they leave no doubt: what is said is the same
    however it was found.
    """

    __slots__ = (
        "_base_us",
        "_kept",
        "_least_slope",
        "_least_us",
        "_most_slope",
        "_most_us",
        "_outlook",
        "_since_us",
        "_slopes",
        "_waiting_us",
        "_weight",
        "_weights",
    )

    def __init__(self, outlook: Outlook, *, waiting_bytes: int, now_us: int) -> None:
        self._outlook = outlook
        self._weights: Sequence[float] = outlook.past.columns[3]
        self._weight = outlook.past.weight
        self._waiting_us = waiting_us = waiting_bytes / outlook.bytes_per_us
        self._kept: Sequence[bool] | None = None
        since_us = 0
        if outlook.unanswered:
            since_us = now_us - outlook.unanswered[0].sent_us
            if since_us > REFUTED_AFTER_US:
                self._kept = kept = outlook.unrefuted(now_us)
                if kept is not None:
                    self._weights = list(compress(self._weights, kept))
                    self._weight = sum(self._weights)
        self._since_us = since_us
        plain_us, out_us, stretch, self._least_slope = outlook.least
        if out_us > since_us:
            plain_us += out_us - since_us
        self._least_us = plain_us + stretch * waiting_us
        plain_us, out_us, stretch, self._most_slope = outlook.most
        if out_us > since_us:
            plain_us += out_us - since_us
        self._most_us = plain_us + stretch * waiting_us
        # The ways the link may be, one a state: a frame takes the first + its size · the second µs.
        self._base_us: Sequence[float] = ()
        self._slopes: Sequence[float] = ()

    def p_on_time(self, size_bytes: float, remaining_us: float) -> float:
        """Probability in 0..1 that the reply of a frame sent now arrives within `remaining_us`."""
        if remaining_us <= 0 or not self._weight:
            return 0.0
        if self._most_us + self._most_slope * size_bytes <= remaining_us:
            return 1.0
        if self._least_us + self._least_slope * size_bytes > remaining_us:
            return 0.0
        if not self._base_us:
            self._take_ways()
        size_bytes, remaining_us = float(size_bytes), float(remaining_us)  # all floats: half the time
        ways = zip(self._base_us, self._slopes, self._weights)  # noqa: B905 - of one length; this is asked often
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
        outlook = self._outlook
        if not outlook.plain_us:
            outlook.take_states()
        plain_us, slopes, kept = outlook.plain_us, outlook.slopes, self._kept
        if outlook.out_us:
            out_us, since_us = outlook.out_stretched_us, self._since_us
            if kept is not None:
                plain_us, out_us = list(compress(plain_us, kept)), list(compress(out_us, kept))
            plain_us = [
                p + (o - since_us) if o > since_us else p
                for p, o in zip(plain_us, out_us)  # noqa: B905 - as above
            ]
        elif kept is not None:
            plain_us = list(compress(plain_us, kept))
        stretch: Sequence[float] = outlook.past.columns[1]
        if kept is not None:
            slopes = list(compress(slopes, kept))
            stretch = list(compress(stretch, kept)) if self._waiting_us else ()
        if self._waiting_us:
            waiting_us = self._waiting_us
            plain_us = [p + s * waiting_us for p, s in zip(plain_us, stretch)]  # noqa: B905 - as above
        self._base_us, self._slopes = plain_us, slopes
