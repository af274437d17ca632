"""How long before its answer is due a hedge is started: so long that near's tail fits, not only its guard.

A slot of the guard is what a frame is promised. Starting earlier than that, while near is idle, takes nothing from far:
the near answer is held for it. It costs a run that far might have saved, and no more; a miss costs the frame.
"""

from edge.scheduling.quantile_window import QuantileWindow

RUNS = 1000
AIR = 1.25
CAUTION = 1.25
CAUTIOUS_RUNS = 50
"""lead = longest run · (AIR + CAUTION / (1 + runs / CAUTIOUS_RUNS)). The chance that the next run is the longest so far
is 1 / runs: what few runs say of a tail is little."""
STOPPED = 1.5
"""A run that was stopped would have gone on: it counts for so much more."""


class NearLead:
    """Over the last runs as the dispatcher saw them: from the order to the report, with every delay between. A run
    longer than all the time a frame has says nothing: no start is early enough for it. `prior_us` counts as a run."""

    def __init__(self, prior_us: int) -> None:
        self._took = QuantileWindow(RUNS)
        self._runs = 0
        self._add(prior_us)

    def took(self, took_us: int, *, frame_us: int, whole: bool = True) -> None:
        """A run took this long, or was stopped after it (`whole` False); a frame has `frame_us` from its capture."""
        if took_us < frame_us:
            self._runs = min(RUNS, self._runs + 1)
            self._add(took_us if whole else int(took_us * STOPPED))

    @property
    def lead_us(self) -> int:
        return self._lead_us

    def _add(self, took_us: int) -> None:
        self._took.add(took_us)
        longest_us = self._took.quantile(1.0) or 0
        self._lead_us = int(longest_us * (AIR + CAUTION / (1.0 + self._runs / CAUTIOUS_RUNS)))
