"""What the link would do to a frame sent now, by what it did to those before and to those still out.

    t(i) = round trip + fixed(i) + stretch(i) · crossing + what is left of stretch(i) · out
    p(on time) = share of the recent past i, weighted by recency, whose t(i) is within what remains

`crossing`: of the bytes that wait before the frame and of itself, by the bandwidth; `out`: of those sent and not answered.
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


class Unanswered(NamedTuple):
    """A frame that is out, and of which nothing that came back says that it crossed."""

    sent_us: int
    size_bytes: int
    nominal: Nominal


class Past:
    """The states a link was in lately, newest last, field by field: a frame took `fixed_us` more than a round trip, which
    is what the worker took and what its head was slower by, and its body `stretch` times as long as by the bandwidth.
    `weights`: how much each counts. Nothing of it changes, and no state is below `least_…` or above `most_…`."""

    __slots__ = (
        "fixed_us",
        "least_fixed_us",
        "least_stretch",
        "most_fixed_us",
        "most_stretch",
        "stretch",
        "weight",
        "weights",
    )

    def __init__(self, fixed_us: Sequence[float], stretch: Sequence[float], weights: Sequence[float]) -> None:
        self.fixed_us = fixed_us
        self.stretch = stretch
        self.weights = weights
        self.weight = sum(weights)
        self.least_fixed_us = min(fixed_us)
        self.most_fixed_us = max(fixed_us)
        self.least_stretch = min(stretch)
        self.most_stretch = max(stretch)


class Forecast:
    """The link at one moment, asked about frames of several sizes. `unanswered`: what is out, oldest first;
    `waiting_bytes` go before such a frame.

    Nothing is laid out state by state: what all have in common is taken off what remains, so that a question is one look
    at the past. Most need none: where the least or the most of all leave no doubt, the answer is the same.
    """

    __slots__ = (
        "_ahead_us",
        "_base_us",
        "_bytes_per_us",
        "_fixed_us",
        "_most_out_us",
        "_out_us",
        "_past",
        "_since_us",
        "_stretch",
        "_weight",
        "_weights",
    )

    def __init__(
        self,
        past: Past,
        *,
        rtt_us: float,
        bytes_per_us: float,
        unanswered: Sequence[Unanswered] = (),
        waiting_bytes: int = 0,
        now_us: int,
    ) -> None:
        self._past = past
        self._fixed_us, self._stretch, self._weights = past.fixed_us, past.stretch, past.weights
        self._weight = past.weight
        self._base_us = rtt_us
        self._bytes_per_us = bytes_per_us
        self._ahead_us = waiting_bytes / bytes_per_us
        self._most_out_us = 0.0
        # Where in some states what is out has crossed and in some it has not, those have to be told apart.
        self._out_us = self._since_us = 0.0
        if unanswered:
            first = unanswered[0]
            since_us = now_us - first.sent_us
            out_us = first.nominal.ahead_us + sum([out.size_bytes for out in unanswered]) / bytes_per_us
            if past.least_stretch * out_us >= since_us:
                self._base_us -= since_us
                self._ahead_us += out_us
            elif past.most_stretch * out_us > since_us:
                self._out_us, self._since_us = out_us, since_us
                self._most_out_us = past.most_stretch * out_us - since_us
            if since_us > REFUTED_AFTER_US:
                self._leave_out_refuted(unanswered, now_us)

    def p_on_time(self, size_bytes: float, remaining_us: float) -> float:
        """Probability in 0..1 that the reply of a frame sent now arrives within `remaining_us`."""
        if remaining_us <= 0 or not self._weight:
            return 0.0
        past = self._past
        left_us = remaining_us - self._base_us
        crossing_us = self._ahead_us + size_bytes / self._bytes_per_us
        if past.most_fixed_us + past.most_stretch * crossing_us + self._most_out_us <= left_us:
            return 1.0
        if past.least_fixed_us + past.least_stretch * crossing_us > left_us:
            return 0.0
        states = zip(self._fixed_us, self._stretch, self._weights)  # noqa: B905 - of one length; this is asked often
        if not self._out_us:
            within = sum([w for fixed, s, w in states if fixed + s * crossing_us <= left_us])
        else:
            out_us, since_us = self._out_us, self._since_us
            within = sum(
                [
                    w
                    for fixed, s, w in states
                    if fixed + s * crossing_us + max(0.0, s * out_us - since_us) <= left_us
                ]
            )
        return min(1.0, within / self._weight)

    def possible(self, size_bytes: float, remaining_us: float) -> bool:
        """Whether `p_on_time` is above 0."""
        if remaining_us <= 0 or not self._weight:
            return False
        past, out_us, since_us = self._past, self._out_us, self._since_us
        left_us = remaining_us - self._base_us
        crossing_us = self._ahead_us + size_bytes / self._bytes_per_us
        if past.least_fixed_us + past.least_stretch * crossing_us > left_us:
            return False
        for fixed, s in zip(self._fixed_us, self._stretch):  # noqa: B905 - as above
            if fixed + s * crossing_us + max(0.0, s * out_us - since_us) <= left_us:
                return True
        return False

    def completion_us(self, size_bytes: int) -> float:
        """The median time until a frame sent now would be back, of the newest few states; infinite if there are
        none."""
        if not self._weight:
            return inf
        crossing_us, out_us = self._ahead_us + size_bytes / self._bytes_per_us, self._out_us
        newest = zip(self._fixed_us[-NEWEST:], self._stretch[-NEWEST:])  # noqa: B905 - as above
        times_us = sorted(
            [fixed + s * crossing_us + max(0.0, s * out_us - self._since_us) for fixed, s in newest]
        )
        return self._base_us + times_us[len(times_us) // 2]

    def _leave_out_refuted(self, unanswered: Sequence[Unanswered], now_us: int) -> None:
        """Only states count in which nothing that is out would be long back."""
        past = self._past
        for sent_us, _, (trip_us, ahead_us, crossing_us) in unanswered:
            left_us = now_us - sent_us - trip_us - REFUTED_AFTER_US
            lane_us = ahead_us + crossing_us
            if past.least_fixed_us + past.least_stretch * lane_us > left_us:
                continue  # it would be in none
            states = zip(self._fixed_us, self._stretch)  # noqa: B905 - as above
            kept = [fixed + s * lane_us > left_us for fixed, s in states]
            self._fixed_us = list(compress(self._fixed_us, kept))
            self._stretch = list(compress(self._stretch, kept))
            self._weights = list(compress(self._weights, kept))
            self._weight = sum(self._weights)
