"""Numbers from a file that may be damaged: JSON as Python reads it also knows NaN, Infinity and years past 9999."""

import math
from typing import Any

_LATEST_UNIX_MS = 253_402_300_799_000.0


def number(value: Any) -> float:
    """A finite float that means something in ms or bytes. Raises ValueError or TypeError for anything else."""
    made = float(value)
    if not math.isfinite(made) or abs(made) > _LATEST_UNIX_MS:
        raise ValueError(f"{value} is no number")
    return made


def unix_ms(value: Any) -> float:
    """A time a calendar knows. Raises ValueError or TypeError for anything else."""
    made = number(value)
    if not 0 <= made <= _LATEST_UNIX_MS:
        raise ValueError(f"{value} is no time")
    return made
