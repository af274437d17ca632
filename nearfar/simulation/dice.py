"""Chance that depends on what is asked and not on when: the same frame meets the same fate under every policy.

Values are hashes of (seed, purpose, number), so runs are paired, repeatable on every Python, and an oracle can
know them beforehand. Mixing function: SplitMix64 (Steele, Lea, Flood 2014).
"""

from collections.abc import Sequence
from enum import IntEnum
from statistics import NormalDist

_MASK = (1 << 64) - 1
_NORMAL = NormalDist()


class Purpose(IntEnum):
    """What chance decides. Numbers are part of every golden figure."""

    NEAR = 1
    SMALL_NEAR = 2
    WORKER = 3
    ENCODE = 4
    SIZE = 5
    FRAME_LOST = 6
    RESULT_LOST = 7
    PING_LOST = 8
    PONG_LOST = 9
    JITTER_UP = 10
    JITTER_DOWN = 11
    HELLO_LOST = 12
    LOST_AGAIN = 13
    WHICH_LOST = 14
    CONFIDENCE = 15
    HEAD_LOST = 16
    CANCEL_LOST = 17


class Dice:
    def __init__(self, seed: int) -> None:
        self._start = _mixed(seed & _MASK)

    def uniform(self, purpose: Purpose, number: int) -> float:
        """In 0 ≤ u < 1, the same for the same arguments."""
        mixed = _mixed((self._start ^ (purpose << 56)) + number * 0x9E3779B97F4A7C15 & _MASK)
        return (mixed >> 11) / (1 << 53)

    def normal(self, purpose: Purpose, number: int) -> float:
        """Standard normal."""
        return _NORMAL.inv_cdf(max(1e-12, self.uniform(purpose, number)))


def _mixed(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


class Durations:
    """A distribution of durations, given by samples in µs."""

    def __init__(self, samples_us: Sequence[int]) -> None:
        if not samples_us or min(samples_us) < 0:
            raise ValueError("durations need samples, none of them negative")
        self._sorted = sorted(int(s) for s in samples_us)

    @classmethod
    def spread(cls, median_us: int, *, share: float = 0.12) -> "Durations":
        """Even between (1 − share) and (1 + share) of the median: how one detector on one machine varies."""
        return cls([int(median_us * (1 - share + 2 * share * i / 100)) for i in range(101)])

    @property
    def median_us(self) -> int:
        return self._sorted[len(self._sorted) // 2]

    def at(self, u: float) -> int:
        """The u-quantile, 0 ≤ u < 1."""
        return self._sorted[int(u * len(self._sorted))]
