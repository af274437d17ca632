"""The link as the dispatcher saw it last: a value other threads may read without touching its estimates."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkGlance:
    """`at_us` is also the dispatcher's sign of life. `rtt_us` is None before the first round trip, `bytes_per_s` 0
    until a frame has crossed."""

    at_us: int = 0
    rtt_us: int | None = None
    rtt_min_us: int = 0
    bytes_per_s: float = 0.0
    in_flight_bytes: int = 0
