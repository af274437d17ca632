"""Whether a picture is too old to be worth an answer: after a stall a camera may deliver what it had kept.

Sans-IO. With times of the camera that can be trusted the age is measured. Without them a burst gives it away:
pictures that come at more than twice the camera's pace after a pause (or after opening) had been waiting.
"""

from dataclasses import dataclass

from edge.capture.pts_clock import PtsClock
from pipelines.windows import SampleWindow

BURST_MOST_US = 2_000_000
"""Longer than this no burst lasts: the camera has become faster."""
GAPS = 60
GAPS_NEEDED = 8
PAUSE_PERIODS = 3


@dataclass(frozen=True, slots=True)
class Age:
    """`age_us`: older than its arrival by this much, 0 where that cannot be told."""

    age_us: int
    stale: bool


class Staleness:
    """Of one connection to a camera; asked once for each picture. A picture older than `max_stale_us` is stale."""

    def __init__(self, *, max_stale_us: int) -> None:
        self._max_stale_us = max_stale_us
        self._clock = PtsClock()
        self._gaps = SampleWindow(GAPS)
        self._last: tuple[int, int | None] | None = None
        self._suspect_until_us = 0

    def judge(self, *, arrived_us: int, pts_us: int | None) -> Age:
        """`pts_us` None: the camera gives no times."""
        measured_us = self._clock.age_us(arrived_us=arrived_us, pts_us=pts_us)
        burst = self._in_burst(arrived_us, pts_us)
        self._last = (arrived_us, pts_us)
        if measured_us is not None:
            return Age(measured_us, stale=measured_us > self._max_stale_us)
        return Age(0, stale=burst)

    def _in_burst(self, arrived_us: int, pts_us: int | None) -> bool:
        if self._last is None:
            self._suspect_until_us = arrived_us + BURST_MOST_US
            return False
        last_us, last_pts_us = self._last
        gap_us = arrived_us - last_us
        period_us = self._period_us(arrived_us)
        if period_us is None and pts_us is not None and last_pts_us is not None:
            period_us = pts_us - last_pts_us
            if period_us <= 0:  # the first pictures of a connection may share one time, or start it over
                return False
        if period_us and gap_us > max(self._max_stale_us, PAUSE_PERIODS * period_us):
            self._suspect_until_us = arrived_us + BURST_MOST_US
            return False
        if arrived_us < self._suspect_until_us:
            if period_us and gap_us < period_us / 2:
                return True
            self._suspect_until_us = 0
        self._gaps.add(gap_us, arrived_us)
        return False

    def _period_us(self, now_us: int) -> float | None:
        return self._gaps.quantile(0.5, now_us) if len(self._gaps) >= GAPS_NEEDED else None
