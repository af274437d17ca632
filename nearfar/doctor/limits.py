"""How long each step of a doctor may take, so that all of them together end in time."""

import time
from collections.abc import Callable

Limit = Callable[[float], float]
"""From the seconds a step would like to those it gets."""
_LEAST_S = 0.1


def allowance(total_s: float) -> Limit:
    """Limits that together end `total_s` from now, but for a moment each."""
    until_s = time.monotonic() + total_s
    return lambda own_s: max(_LEAST_S, min(own_s, until_s - time.monotonic()))


def as_asked(own_s: float) -> float:
    """The limit of a step that is alone."""
    return own_s
