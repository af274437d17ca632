"""When the next live frame will leave: cameras are regular, so a chunk can be out of its way.

The next is expected one usual interval after the last, while intervals differ little; of several cameras with their own
rhythms nothing is expected. Sans-IO; times are µs of the monotonic clock.
"""

WEIGHT = 0.2
REGULAR = 0.25
"""Intervals whose mean deviation is a larger part of them are no rhythm."""
PAUSE_US = 1_000_000
GRACE_US = 5_000
"""A frame that is later than this is not waited for."""


class LiveRhythm:
    """`sent` for every live frame that goes over this link."""

    def __init__(self) -> None:
        self._last_us: int | None = None
        self._every_us = 0.0
        self._deviation_us = 0.0

    def sent(self, now_us: int) -> None:
        last_us, self._last_us = self._last_us, now_us
        if last_us is None or now_us - last_us > PAUSE_US:
            self._every_us = 0.0
            return
        every_us = now_us - last_us
        if not self._every_us:
            self._every_us, self._deviation_us = every_us, every_us
            return
        self._deviation_us += WEIGHT * (abs(every_us - self._every_us) - self._deviation_us)
        self._every_us += WEIGHT * (every_us - self._every_us)

    def clear_us(self, crossing_us: int, now_us: int) -> int:
        """From when a chunk may go that takes `crossing_us`: now, or once the next frame has left that it would hold
        up. Chunks that take more than half of the interval cannot be placed."""
        if self._last_us is None or not self._every_us or 2 * crossing_us > self._every_us:
            return now_us
        if self._deviation_us > REGULAR * self._every_us:
            return now_us
        next_us = self._last_us + int(self._every_us)
        return next_us + GRACE_US if next_us - crossing_us < now_us < next_us + GRACE_US else now_us
