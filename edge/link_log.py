"""What the link looked like over time: a line when its state changes, and at most every 200 ms while it does not.

`look` is called by the dispatcher after every event: it compares three values and returns; lines are made and
written elsewhere. Wall time is for people; nothing is decided by it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from edge.scheduling.scheduler import Scheduler

EVERY_US = 200_000
FRESH_US = 500_000
"""A round trip measured longer ago than this says nothing about now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSight:
    """The link at one moment. `rtt_us` None = none was measured lately; `reason` says why it is not in budget."""

    unix_us: int
    link: str
    connected: bool
    in_budget: bool
    reason: str
    rtt_us: int | None
    rtt_min_us: int
    bytes_per_us: float
    in_flight_bytes: int
    near_guard_us: int
    fall_back_above_us: int
    return_below_us: int

    def as_line(self) -> dict[str, object]:
        return {
            "unix_ms": self.unix_us / 1000,
            "link": self.link,
            "connected": self.connected,
            "in_budget": self.in_budget,
            "reason": self.reason,
            "rtt_ms": None if self.rtt_us is None else self.rtt_us / 1000,
            "rtt_min_ms": self.rtt_min_us / 1000,
            "bandwidth_mbit": round(self.bytes_per_us * 8, 3),
            "in_flight_bytes": self.in_flight_bytes,
            "near_guard_ms": self.near_guard_us / 1000,
            "fall_back_above_ms": self.fall_back_above_us / 1000,
            "return_below_ms": self.return_below_us / 1000,
        }


def _unix_us() -> int:
    return time.time_ns() // 1000


class LinkLog:
    """Owned by the dispatcher thread; `write` must return at once."""

    def __init__(
        self,
        *,
        name: str,
        scheduler: Scheduler,
        write: Callable[[LinkSight], None],
        unix_us: Callable[[], int] = _unix_us,
    ) -> None:
        self._name = name
        self._scheduler = scheduler
        self._write = write
        self._unix_us = unix_us
        self._state: tuple[bool, bool, str] | None = None
        self._next_us = 0

    def look(self, degraded: str, now_us: int) -> None:
        """`degraded` says in words why far is not there, empty while it is."""
        breaker = self._scheduler.far.breaker
        state = (breaker.connected, breaker.in_budget, degraded or breaker.reason)
        if state == self._state and now_us < self._next_us:
            return
        self._state = state
        self._next_us = now_us + EVERY_US
        link, settings = self._scheduler.far.link, self._scheduler.settings
        measured = link.last_rtt
        fresh = measured is not None and now_us - measured[1] <= FRESH_US
        self._write(
            LinkSight(
                unix_us=self._unix_us(),
                link=self._name,
                connected=state[0],
                in_budget=state[1],
                reason=state[2],
                rtt_us=measured[0] if measured is not None and fresh else None,
                rtt_min_us=link.rtt_min_us(now_us),
                bytes_per_us=link.measured_bytes_per_us(now_us),
                in_flight_bytes=self._scheduler.in_flight_bytes,
                near_guard_us=self._scheduler.near.estimate.guard_us,
                fall_back_above_us=settings.fall_back_above_us,
                return_below_us=settings.return_below_us,
            )
        )
