"""A moment as people write one: a date and time, or how long ago."""

import re
from datetime import datetime

from pipelines.units import bounded_duration

_AGO = re.compile(r"\s*\d+(\.\d+)?\s*(us|ms|s|m|h|d)\s*$")
"""A number with a unit; everything else must be a date."""


def moment_us(text: str, *, now_unix_us: int) -> int:
    """`2026-11-30`, `2026-11-30T14:05` (this machine's time unless it names a zone), or `2h` = two hours ago; as µs
    since 1970. Raises ValueError with the right spelling."""
    if _AGO.match(text):
        return now_unix_us - bounded_duration(text)
    try:
        at = datetime.fromisoformat(text.strip())
        return round(at.timestamp() * 1_000_000)  # of this machine's zone if it names none
    except (ValueError, OverflowError) as error:
        raise ValueError(
            "must be a moment like 2026-11-30, 2026-11-30T14:05 or 2026-11-30T13:05Z, or how long ago, like 2h or 7d"
        ) from error
