"""What the link would do to a frame sent now, by what it did to those before and to those still out.

    t(i) = round trip + extra(i) + stretch(i) · (bytes still crossing + size) / bandwidth + worker(i)
    p(on time) = share of the recent past i, weighted by recency, whose t(i) is within what remains

A past in which those still out would long be back speaks of another link than this one: it does not count. So p
falls while an answer is late, and a stalled link has p = 0.
"""

from collections.abc import Sequence
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


class Forecast:
    """The link at one moment, asked about frames of several sizes. `waiting_bytes` go before such a frame."""

    __slots__ = ("_states", "_weight")

    def __init__(
        self,
        residuals: Sequence[Residual],
        *,
        rtt_us: float,
        bytes_per_us: float,
        unanswered: Sequence[Unanswered],
        waiting_bytes: int,
        now_us: int,
    ) -> None:
        out_us = 0.0
        first_us = now_us
        if unanswered:
            first_us = unanswered[0].sent_us
            if now_us - first_us > REFUTED_AFTER_US:
                residuals = [r for r in residuals if not _refuted(r, unanswered, now_us)]
            out_us = unanswered[0].nominal.ahead_us + sum([u.size_bytes for u in unanswered]) / bytes_per_us
        waiting_us = waiting_bytes / bytes_per_us
        since_us = now_us - first_us
        # (base, µs a byte, weight): one way the link may be, in which a frame takes base + size · µs a byte.
        self._states = [
            (
                rtt_us + extra + worker + max(0.0, stretch * out_us - since_us) + stretch * waiting_us,
                stretch / bytes_per_us,
                weight,
            )
            for extra, stretch, worker, weight in residuals
        ]
        self._weight = sum([weight for _, _, weight in self._states])

    def p_on_time(self, size_bytes: int, remaining_us: int) -> float:
        """Probability in 0..1 that the reply of a frame sent now arrives within `remaining_us`."""
        if remaining_us <= 0 or not self._states:
            return 0.0
        within = sum([w for base, slope, w in self._states if base + slope * size_bytes <= remaining_us])
        return min(1.0, within / self._weight)

    def completion_us(self, size_bytes: int) -> float:
        """The median time until a frame sent now would be back, of the newest few states; infinite if there are
        none."""
        times = sorted([base + slope * size_bytes for base, slope, _ in self._states[-NEWEST:]])
        return times[len(times) // 2] if times else float("inf")


def _refuted(residual: Residual, unanswered: Sequence[Unanswered], now_us: int) -> bool:
    """Whether something that is out would long be back, were the link as it was then."""
    extra_us, stretch, worker_us, _ = residual
    for sent_us, size_bytes, (trip_us, ahead_us, crossing_us) in unanswered:
        back_us = sent_us + trip_us + extra_us + stretch * (ahead_us + crossing_us)
        if back_us + (worker_us if size_bytes else 0) + REFUTED_AFTER_US <= now_us:
            return True
    return False
