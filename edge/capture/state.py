"""How a stream is doing, in one word and a reason, for logs, summary, metrics and doctor."""

from dataclasses import dataclass
from enum import StrEnum


class StreamState(StrEnum):
    """`connecting`: no picture yet; `stalled`: there were pictures, none comes now; `ended`: by itself or because
    it was told to; `failed`: it cannot go on. A camera never fails, it is tried for ever."""

    CONNECTING = "connecting"
    RUNNING = "running"
    STALLED = "stalled"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """`reason` says what is wrong, empty while nothing is. `since_us`: when it came into this state, on the
    monotonic clock. `frames` were captured; `stale` of them were shed as too old; `reconnects` counts connections
    after the first; `hanging` are earlier connections that have not come back from the decoder. The size is that
    of the last picture, or of the one expected; 0 = unknown."""

    state: StreamState
    since_us: int
    reason: str = ""
    frames: int = 0
    stale: int = 0
    reconnects: int = 0
    hanging: int = 0
    width_px: int = 0
    height_px: int = 0
