"""How many batches the worker lets wait, learned from its refusals, and when to ask a worker again that had no room.

    a refusal    window = what is still on its way, at least 1; nothing goes for PAUSE_US, twice as long each time that
                 the first after a pause is refused too, PAUSE_AT_MOST_US at most
    an ack       window + 1 once as many were taken as it holds (additive increase, as in TCP: gateways that share a worker
                 come to equal parts); the next pause is the shortest again

Sans-IO; times are µs of the monotonic clock. What is refused is nowhere lost: it is in the outbox.
"""

MOST = 12
"""On their way at once, so that a round trip and a commit in the cloud do not hold up the next."""
PAUSE_US = 100_000
PAUSE_AT_MOST_US = 2_000_000


class IntakeWindow:
    """Of the worker at the other end of the bulk lane. `busy` from a refusal until the window is whole again: until then
    `open` says whether one more may go, and before `until_us` none may. `refused` counts for ever."""

    def __init__(self) -> None:
        self.refused = 0
        self._begin()

    def _begin(self) -> None:
        self.size = MOST
        self.busy = False
        self.until_us = 0
        self._pause_us = PAUSE_US
        self._taken = 0

    def another(self) -> None:
        """Another connection, maybe of another worker: nothing is known of it."""
        self._begin()

    def open(self, out: int) -> bool:
        """Whether the worker is thought to have room for one more beside `out` that are on their way."""
        return not self.busy or out < self.size

    def refuse(self, out: int, now_us: int) -> bool:
        """The worker had no room for one, `out` others are still on their way; whether this is news."""
        self.refused += 1
        self.size = max(1, min(self.size, out))
        self._taken = 0
        if now_us >= self.until_us:  # else it left with the one that began this pause
            self.until_us = now_us + self._pause_us
            self._pause_us = min(2 * self._pause_us, PAUSE_AT_MOST_US)
        news, self.busy = not self.busy, True
        return news

    def took(self) -> bool:
        """The worker has one; whether the window is whole again by it."""
        self._pause_us = PAUSE_US
        if not self.busy:
            return False
        self._taken += 1
        if self._taken >= self.size:
            self.size, self._taken = self.size + 1, 0
        self.busy = self.size < MOST
        return not self.busy
