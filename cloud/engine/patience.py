"""How long a run may take before its engine is held to hang. Sans-IO: times are arguments, in µs."""

from pipelines.windows import SampleWindow

LEAST_US = 2_000_000
_TIMES = 20
_RUNS = 200
_NTH = 10  # the limit moves slowly, and sorting 200 values for each run would cost more than the rest of it


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
