"""When backfill may go, and how much of it: below live traffic, never starved.

Sans-IO; times are µs of the monotonic clock. Backfill depends on reachability, not on the round-trip band.
In budget a chunk goes while nothing of the live lane is in flight or its queueing is at most 10 ms; over
budget, where no live frame is sent, it takes at most 80 % of the goodput. Whatever the link does, a small
chunk goes every 5 s while the worker can be reached. Payloads are paused besides while they cost far answers.
"""

from edge.outbox.pause import PauseRule

SHARE = 0.8
QUEUEING_US = 10_000
AT_LEAST_EVERY_US = 5_000_000
SMALL_BYTES = 4096
LARGE_BYTES = 64 * 1024
GAP_US = 20_000  # a chunk's transmission in budget: fits between two frames at 30 fps
STRETCH_US = 250_000  # and over budget, where there is nothing to fit between
UNKNOWN_BYTES_PER_S = 125_000.0
STALE_US = 2_000_000  # an observation of the live lane says nothing after this


class Pacing:
    """One link's bulk lane."""

    def __init__(self) -> None:
        self._connected = False
        self._in_flight_bytes = 0
        self._over_budget = False
        self._live_bytes_per_s = 0.0
        self._own_bytes_per_s = UNKNOWN_BYTES_PER_S  # by what crossed this lane, while no live frame tells
        self._queueing_us = 0
        self._observed_us: int | None = None
        self._free_us = 0  # when what was sent will have crossed at our share
        self._last_us: int | None = None
        self.pause = PauseRule()

    @property
    def connected(self) -> bool:
        return self._connected

    def reachable(self, *, connected: bool, now_us: int) -> None:
        if connected:
            self._own_bytes_per_s = UNKNOWN_BYTES_PER_S  # it may be another link
        if connected and not self._connected:
            self._free_us = now_us
            self._last_us = now_us
        self._connected = connected

    def observe(
        self,
        *,
        in_flight_bytes: int,
        over_budget: bool,
        bytes_per_s: float,
        queueing_us: int,
        now_us: int,
    ) -> None:
        """What the live lane saw last; `bytes_per_s` 0 while the bandwidth is unknown."""
        self._in_flight_bytes = in_flight_bytes
        self._over_budget = over_budget
        self._live_bytes_per_s = bytes_per_s
        self._queueing_us = queueing_us
        self._observed_us = now_us

    def allowance_bytes(self, now_us: int) -> int:
        """How large a chunk may go now; 0 for none."""
        if not self._connected:
            return 0
        if now_us >= self._free_us and self._idle(now_us):
            live = self._observed_us is not None and now_us - self._observed_us < STALE_US
            span_us = GAP_US if live and not self._over_budget else STRETCH_US
            return min(LARGE_BYTES, max(SMALL_BYTES, int(self._bytes_per_s * SHARE * span_us / 1e6)))
        return SMALL_BYTES if self._starved(now_us) else 0

    def crossed(self, size_bytes: int, took_us: int) -> None:
        """What was sent is acknowledged: the link carries at least so much."""
        if took_us > 0:
            self._own_bytes_per_s = (self._own_bytes_per_s + size_bytes / took_us * 1e6) / 2

    @property
    def _bytes_per_s(self) -> float:
        return self._live_bytes_per_s if self._live_bytes_per_s > 0 else self._own_bytes_per_s

    def payload_allowance_bytes(self, now_us: int) -> int:
        """How large a piece of a payload may go now; 0 for none."""
        allowance_bytes = self.allowance_bytes(now_us)
        if now_us < self.pause.until_us and not self._starved(now_us):
            return 0
        return min(allowance_bytes, SMALL_BYTES) if now_us < self.pause.until_us else allowance_bytes

    def payload_due_us(self, now_us: int) -> int:
        """As `due_us`, for a piece of a payload."""
        starved_us = (now_us if self._last_us is None else self._last_us) + AT_LEAST_EVERY_US
        return min(max(self.due_us(now_us), self.pause.until_us), max(starved_us, now_us))

    def sent(self, size_bytes: int, now_us: int) -> None:
        """A chunk was handed to the link; the next waits until it has crossed at our share of the goodput."""
        self._last_us = now_us
        self._free_us = max(now_us, self._free_us) + int(size_bytes / (self._bytes_per_s * SHARE) * 1e6)

    def due_us(self, now_us: int) -> int:
        """The earliest moment at which asking again may help, if nothing new is observed."""
        starved_us = (now_us if self._last_us is None else self._last_us) + AT_LEAST_EVERY_US
        if now_us < self._free_us:
            return min(self._free_us, starved_us)
        if self._idle(now_us):
            return now_us
        stale_us = now_us if self._observed_us is None else self._observed_us + STALE_US
        return min(starved_us, stale_us)

    def _starved(self, now_us: int) -> bool:
        return self._last_us is not None and now_us - self._last_us >= AT_LEAST_EVERY_US

    def _idle(self, now_us: int) -> bool:
        if self._observed_us is None or now_us - self._observed_us >= STALE_US:
            return True
        return self._over_budget or self._in_flight_bytes == 0 or self._queueing_us <= QUEUEING_US
