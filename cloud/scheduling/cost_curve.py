"""What a run costs by the number of frames in it, learned from the runs themselves.

Sans-IO. Sizes that were never run are reckoned from those that were: between two of them in a straight line, beyond
the largest in proportion, below the smallest as much as that. So a curve is never better than what was seen.
"""

from bisect import bisect_left

from cloud.scheduling.recent import Recent

SAMPLES = 200


class CostCurve:
    """`max_size` frames at most in a run; 0 µs everywhere until the first run. `at[n]`: what `run_us(n)` says, to be
    read only."""

    def __init__(self, max_size: int = 1) -> None:
        self.max_size = max_size
        self._seen: dict[int, Recent] = {}
        self._sizes: list[int] = []
        self.at: list[int] = [0] * (max_size + 1)

    def observe(self, size: int, run_us: int) -> None:
        recent = self._seen.get(size)
        if recent is None:
            recent = self._seen[size] = Recent(SAMPLES)
            self._sizes = sorted(self._seen)
        before_us = recent.expected_us
        recent.add(run_us)
        if recent.expected_us == before_us:
            return
        if self.max_size == 1:
            self.at[1] = recent.expected_us
        else:
            self.at = [0, *(self._reckon(n) for n in range(1, self.max_size + 1))]

    def run_us(self, size: int) -> int:
        """Of a run of `size` frames, 1 to `max_size`."""
        return self.at[size]

    def late_us(self, size: int) -> int:
        """What one run in twenty exceeds, at least a tenth above `run_us`."""
        late_us = self.at[size] * 11 // 10
        recent = self._seen.get(size)
        return late_us if recent is None or recent.p95_us < late_us else recent.p95_us

    def measured(self) -> list[tuple[int, int, int]]:
        """`(size, p50 µs, runs)` of every size that was run."""
        return [(size, self._seen[size].p50_us, len(self._seen[size])) for size in self._sizes]

    def _reckon(self, size: int) -> int:
        recent = self._seen.get(size)
        if recent is not None:
            return recent.expected_us
        place = bisect_left(self._sizes, size)
        if place == 0:
            return self._seen[self._sizes[0]].expected_us
        low = self._sizes[place - 1]
        low_us = self._seen[low].expected_us
        if place == len(self._sizes):
            return low_us * size // low
        high = self._sizes[place]
        high_us = self._seen[high].expected_us
        return low_us + (high_us - low_us) * (size - low) // (high - low)
