"""The link at one moment, as the dispatcher saw it: the one value that log, metrics, summary and outbox are told of.

Replaced whole, so that any thread may read it without touching what it was made from.
"""

from dataclasses import dataclass

DATA_BUDGET = "data budget used up"
"""The reason of a link that is over budget while no frame of normal priority may be paid for."""
FRESH_US = 500_000
"""A round trip measured longer ago than this says nothing about now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSight:
    """`reason` says why it is not in budget, empty while it is. `rtt_us` is the last round trip without the worker's
    time, `rtt_age_us` old; None before the first. `bytes_per_us` is 0 until a frame has crossed. `connections` were
    welcomed and taken; `sent_bytes`, `too_large` and `bad_messages` count both lanes. `silent`: connected, and
    nothing is answered. `selective`: over budget, and frames that look worth it go all the same. `budget_left_bytes`
    of the data budget, None without one; `budget_low`: what is left of it is not for frames of normal priority."""

    unix_us: int
    link: str
    connected: bool
    in_budget: bool
    reason: str
    rtt_us: int | None
    rtt_age_us: int
    rtt_min_us: int
    bytes_per_us: float
    in_flight_bytes: int
    near_guard_us: int
    fall_back_above_us: int
    return_below_us: int
    connections: int
    sent_bytes: int
    too_large: int
    bad_messages: int
    silent: bool = False
    selective: bool = False
    metered: bool = False
    budget_left_bytes: int | None = None
    budget_low: bool = False

    @property
    def state(self) -> tuple[bool, bool, str]:
        """What makes it worth a line at once when it changes."""
        return (self.connected, self.in_budget, self.reason)

    @property
    def offloads(self) -> bool:
        """Whether frames may go this way."""
        return self.in_budget and not self.budget_low

    @property
    def budget_spent(self) -> bool:
        """Whether the data budget is used up altogether."""
        return self.budget_left_bytes is not None and self.budget_left_bytes <= 0

    @property
    def queueing_us(self) -> int:
        """What the last round trip took beyond the shortest of late."""
        return max(0, (self.rtt_us or 0) - self.rtt_min_us)

    def as_line(self) -> dict[str, object]:
        """For `link.jsonl`; `rtt_ms` is null unless it was measured lately."""
        fresh = self.rtt_us is not None and self.rtt_age_us <= FRESH_US
        return {
            "unix_ms": self.unix_us / 1000,
            "link": self.link,
            "connected": self.connected,
            "in_budget": self.in_budget,
            "reason": self.reason,
            "rtt_ms": self.rtt_us / 1000 if self.rtt_us is not None and fresh else None,
            "rtt_min_ms": self.rtt_min_us / 1000,
            "bandwidth_mbit": round(self.bytes_per_us * 8, 3),
            "in_flight_bytes": self.in_flight_bytes,
            "near_guard_ms": self.near_guard_us / 1000,
            "fall_back_above_ms": self.fall_back_above_us / 1000,
            "return_below_ms": self.return_below_us / 1000,
        }

    def as_summary(self) -> dict[str, object]:
        """For `summary.json`."""
        return {
            "connected": self.connected,
            "in_budget": self.in_budget,
            "reason": self.reason,
            "connections": self.connections,
            "bytes_up": self.sent_bytes,
            "too_large": self.too_large,
            "bad_messages": self.bad_messages,
            "rtt_min_ms": round(self.rtt_min_us / 1000, 2),
            "bandwidth_mbit": round(self.bytes_per_us * 8, 2),
            "metered": self.metered,
            "budget_left_bytes": self.budget_left_bytes,
        }
