"""Whether the store writes, and when a store that fails for now is tried again: after 0.2 s, then twice as long, at
most 5 s. A failure is said once, and so is the first commit after it.
"""

import logging

from pipelines.errors import Retryable

log = logging.getLogger(__name__)

RETRY_FIRST_US = 200_000
RETRY_AT_MOST_US = 5_000_000


class StoreHealth:
    """Used by one thread. `last_error`: the last words of a store that fails, empty once it has written again. `writes`: it is
    not known otherwise; False from a failure on until something was written, also while there is nothing to write."""

    def __init__(self) -> None:
        self.last_error = ""
        self.writes = True
        self.retry_us = 0
        self._backoff_us = 0  # above zero while the store fails

    @property
    def fails(self) -> bool:
        return self._backoff_us > 0

    def may_write(self, now_us: int) -> bool:
        return not self.fails or now_us >= self.retry_us

    def failed(self, error: Retryable, now_us: int) -> None:
        if self._backoff_us == 0:
            log.warning("the outbox cannot write for now, answers wait in memory: %s", error)
        self.last_error = str(error)
        self.writes = False
        self._backoff_us = min(max(RETRY_FIRST_US, 2 * self._backoff_us), RETRY_AT_MOST_US)
        self.retry_us = now_us + self._backoff_us

    def nothing_to_write(self) -> None:
        """There is nothing left that could fail: what fails from now on is a new trouble."""
        self._backoff_us = 0

    def wrote(self) -> None:
        if self._backoff_us:
            log.warning("the outbox writes again")
        self._backoff_us, self.last_error, self.writes = 0, "", True
