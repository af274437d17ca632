"""What a link carries, in bytes a µs: Σ size / Σ time to cross of the last frames, newer ones weighing more.

A weight is reckoned once, from a moment all of them are counted from: as time goes on all fade alike, which no ratio sees.
"""

from collections import deque
from math import exp

SAMPLES = 20
FADE_US = 200_000
"""Bandwidth of a radio link is nearly as it was 70 ms ago and hardly as it was 1 s ago."""
REBASE_US = 300 * FADE_US
"""So long after that moment another one is taken, far from where a float ends."""


class Bandwidth:
    """`bytes_per_us` is 0 until a frame has crossed, and the last known after a silence."""

    def __init__(self) -> None:
        self._bytes: deque[float] = deque(maxlen=SAMPLES)
        self._us: deque[float] = deque(maxlen=SAMPLES)
        self._since_us = 0
        self.bytes_per_us = 0.0

    def observe(self, size_bytes: int, *, crossing_us: int, now_us: int) -> None:
        """A frame took `crossing_us` (above 0) to cross."""
        if now_us - self._since_us > REBASE_US:
            self._rebase(now_us)
        weight = exp((now_us - self._since_us) / FADE_US)
        self._bytes.append(weight * size_bytes)
        self._us.append(weight * crossing_us)
        self.bytes_per_us = sum(self._bytes) / sum(self._us)

    def _rebase(self, now_us: int) -> None:
        fade = exp((self._since_us - now_us) / FADE_US)
        for column in (self._bytes, self._us):
            faded = [weighed * fade for weighed in column]
            column.clear()
            column.extend(faded)
        self._since_us = now_us
