"""How late this machine is: the margin before a deadline, and the time a commit takes."""

from edge.scheduling.quantile_window import QuantileWindow

PRIOR_COMMIT_US = 1_000
MOST_OF_DEADLINE = 0.1


class WakeUp:
    """margin ≥ p99.9 of the dispatcher's wake-up lateness; commit = p99 of answer → commit. Neither takes more
    than a tenth of the deadline, so that one stall of the machine does not end offloading."""

    def __init__(self, *, deadline_us: int, margin_us: int) -> None:
        self._least_us = margin_us
        self._most_us = max(margin_us, int(deadline_us * MOST_OF_DEADLINE))
        self._lateness = QuantileWindow(2000)
        self._commits = QuantileWindow(500)
        self.margin_us = margin_us
        self.commit_us = PRIOR_COMMIT_US

    def woke_late(self, lateness_us: int) -> None:
        self._lateness.add(max(0, lateness_us))
        tail_us = self._lateness.quantile(0.999) or 0
        self.margin_us = max(self._least_us, min(tail_us, self._most_us))

    def commit_took(self, commit_us: int) -> None:
        self._commits.add(commit_us)
        tail_us = self._commits.quantile(0.99) or 0
        self.commit_us = min(max(tail_us, PRIOR_COMMIT_US), self._most_us)
