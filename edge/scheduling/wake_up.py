"""How late this machine is: the margin before a deadline, the time a commit takes, and how long an answer may wait."""

from edge.scheduling.quantile_window import QuantileWindow

PRIOR_COMMIT_US = 1_000
MOST_OF_DEADLINE = 0.1
UNLIKELY_HOLDS = 2
TOO_LATE = 0.0015
"""An answer that waits for a better one may be late by the wait so often, no oftener."""


class WakeUp:
    """margin ≥ p99.9 of the dispatcher's wake-up lateness; commit = p99 of answer → commit. Neither takes more
    than a tenth of the deadline, so that one stall of the machine does not end offloading.

    `hold_us` has no such bound: so long before its deadline an answer that is there is no longer held back. On a
    machine that is late too often far gets less time, or none, but a near answer is never late for having waited."""

    def __init__(self, *, deadline_us: int, margin_us: int) -> None:
        self._least_us = margin_us
        self._most_us = max(margin_us, int(deadline_us * MOST_OF_DEADLINE))
        self._lateness = QuantileWindow(2000)
        self._commits = QuantileWindow(500)
        self.margin_us = margin_us
        self.commit_us = PRIOR_COMMIT_US
        self._tail_us = 0
        self.hold_us = 0
        """How long before its deadline a near answer is given at the latest, whatever far may still say."""
        self.hold_unlikely_us = 0
        """The same where far will hardly come in time (a probe, a frame sent to learn): an answer that waited for that
        to the last would be late about as often as better."""
        self._reckon()

    def woke_late(self, lateness_us: int) -> None:
        self._lateness.add(max(0, lateness_us))
        tail_us = self._lateness.quantile(0.999) or 0
        self.margin_us = max(self._least_us, min(tail_us, self._most_us))
        seen = len(self._lateness)
        but_one = 1.0 - max(1.0 / seen, TOO_LATE)  # once is chance
        self._tail_us = self._lateness.quantile(but_one) or 0 if seen > 1 else 0
        self._reckon()

    def commit_took(self, commit_us: int) -> None:
        self._commits.add(commit_us)
        tail_us = self._commits.quantile(0.99) or 0
        self.commit_us = min(max(tail_us, PRIOR_COMMIT_US), self._most_us)
        self._reckon()

    def _reckon(self) -> None:
        self.hold_us = max(self.margin_us, self._tail_us) + self.commit_us
        self.hold_unlikely_us = UNLIKELY_HOLDS * self.hold_us
