"""A moment as people write one: a date and time, or how long ago."""

from datetime import datetime

from pipelines.units import duration


def moment_us(text: str, *, now_unix_us: int) -> int:
    """`2026-11-30`, `2026-11-30T14:05` (this machine's time unless it names a zone), or `2h` = two hours ago; as µs
    since 1970. Raises ValueError with the right spelling."""
    try:
        return now_unix_us - duration(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(
            "must be a moment like 2026-11-30, 2026-11-30T14:05 or 2026-11-30T13:05Z, or how long ago, like 2h or 7d"
        ) from error
    return round(at.timestamp() * 1_000_000)  # of this machine's zone if it names none
