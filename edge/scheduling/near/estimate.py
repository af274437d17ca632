"""How long near takes under load: the guard a slot is made of."""

from edge.scheduling.quantile_window import QuantileWindow

RUNS = 500
QUANTILE = 0.995
RECENT_RUNS = 15
CLAMP = 3.0
"""guard ≤ CLAMP × p50, so that one stall of the machine does not end offloading."""
CAUTION = 0.25
CAUTIOUS_RUNS = 50
"""A tail of few runs is not yet a tail: the guard is that much longer at first, less with every run."""


class NearEstimate:
    """Guard = p99.5 of the last 500 runs, at most three medians of the last 15: one stall moves it little, a
    gateway that became slow or quick is believed after eight runs. `prior_us` serves before the first run."""

    def __init__(self, prior_us: int) -> None:
        self._runs = QuantileWindow(RUNS)
        self._recent = QuantileWindow(RECENT_RUNS)
        self._guard_us = int(prior_us * (1.0 + CAUTION))
        self._p50_us = prior_us

    def observe(self, run_us: int) -> None:
        """A run took this long, or was given up after it."""
        self._runs.add(run_us)
        self._recent.add(run_us)
        self._p50_us = self._recent.quantile(0.5) or 1
        caution = CAUTION * max(0.0, 1.0 - len(self._runs) / CAUTIOUS_RUNS)
        tail_us = int((self._runs.quantile(QUANTILE) or 1) * (1.0 + caution))
        self._guard_us = max(1, min(tail_us, int(CLAMP * self._p50_us)))

    @property
    def guard_us(self) -> int:
        return self._guard_us

    @property
    def p50_us(self) -> int:
        return self._p50_us
