"""How long a run may take before its engine is held to hang, and how long a crashed engine waits before it starts again.

Sans-IO: times are arguments, in µs.
"""

from pipelines.windows import SampleWindow

LEAST_US = 2_000_000
_TIMES = 20
_RUNS = 200
_NTH = 10  # the limit moves slowly, and sorting 200 values for each run would cost more than the rest of it

AT_ONCE_US = 0
FIRST_US = 200_000
MOST_US = 5_000_000
SOUND_AFTER_US = 30_000_000


class Patience:
    """`limit_us` = max(2 s, 20 × the 99th percentile of the last 200 runs), or what a person set; before the first run
    `first_us`, as a first run may build what later ones reuse."""

    def __init__(self, *, fixed_us: int | None, first_us: int) -> None:
        self._fixed = fixed_us is not None
        self.limit_us = first_us if fixed_us is None else fixed_us
        self._runs = SampleWindow(_RUNS)
        self._seen = 0

    def observe(self, took_us: int) -> None:
        """A run ended by itself after this time."""
        if self._fixed:
            return
        self._runs.add(took_us, 0)
        self._seen += 1
        if self._seen <= _NTH or self._seen % _NTH == 0:
            self.limit_us = max(LEAST_US, round(_TIMES * (self._runs.quantile(0.99, 0) or 0)))


class RestartDelay:
    """0 for the first end in a row, then 0.2 s, doubled up to 5 s. An engine that was ready for 30 s has proven itself:
    its end is a first one again."""

    def __init__(self) -> None:
        self.in_a_row = 0

    def after(self, ready_us: int) -> int:
        """The wait after an engine ended that had been ready for `ready_us`."""
        if ready_us >= SOUND_AFTER_US:
            self.in_a_row = 0
        self.in_a_row += 1
        if self.in_a_row == 1:
            return AT_ONCE_US
        return int(min(FIRST_US * 2 ** min(self.in_a_row - 2, 10), MOST_US))
