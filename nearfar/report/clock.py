"""Wall times of a gateway whose clock was not set when it started.

A board without a battery starts in 1970 and jumps when it hears the time. What was seen before the jump is put
right before what was seen after it, so that fifty empty years do not lie between them.
"""

import numpy as np
from numpy.typing import NDArray

_SET_FROM_MS = 946_684_800_000.0
"""2000-01-01: a clock that says less was never set."""


def mended(unix_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same times on one axis; unchanged unless some are from before the clock was set and some after."""
    unset = unix_ms < _SET_FROM_MS
    if not unset.any() or unset.all():
        return unix_ms
    shift_ms = unix_ms[~unset].min() - unix_ms[unset].max()
    return np.where(unset, unix_ms + shift_ms, unix_ms)
