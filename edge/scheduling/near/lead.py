"""How long before its answer is due a hedge is started: so long that near's tail fits, not only its guard.

A slot of the guard is what a frame is promised. Starting earlier than that, while near is idle, takes nothing from far:
the near answer is held for it. It costs a run that far might have saved, and no more; a miss costs the frame.
"""

from edge.scheduling.quantile_window import QuantileWindow

RUNS = 1000
AIR = 0.25
CAUTION = 1.25
CAUTIOUS_RUNS = 50
UNSEEN = 1.5
UNSEEN_RUNS = 5
"""lead = longest + (longest − p50) · (AIR + CAUTION / (1 + runs / CAUTIOUS_RUNS)) + longest · UNSEEN / (1 + runs /
UNSEEN_RUNS). The chance that the next run is the longest so far is 1 / runs, and by how much goes with how far runs
differ: a detector that always takes the same starts no earlier than it must. A handful of runs says not even that."""
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

    def not_needed(self, took_us: int, *, frame_us: int) -> None:
        """Far answered while a run was on, for `took_us` by then. How long it would have taken stays unknown, but where far
        answers so often less hangs on it: it counts as a run, so that a link that is always in time ends the caution of
        the start. One that was on for longer than any before tells of a near that became slow while far answered."""
        self._runs = min(RUNS, self._runs + 1)
        if (self._took.quantile(1.0) or 0) < took_us < frame_us:
            self._add(took_us)
        else:
            self._reckon()

    @property
    def lead_us(self) -> int:
        return self._lead_us

    def _add(self, took_us: int) -> None:
        self._took.add(took_us)
        self._reckon()

    def _reckon(self) -> None:
        longest_us, p50_us = self._took.quantile(1.0) or 0, self._took.quantile(0.5) or 0
        further = AIR + CAUTION / (1.0 + self._runs / CAUTIOUS_RUNS)
        unseen = UNSEEN / (1.0 + self._runs / UNSEEN_RUNS)
        self._lead_us = int(longest_us * (1.0 + unseen) + (longest_us - p50_us) * further)
