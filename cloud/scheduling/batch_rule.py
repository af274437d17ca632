"""How many frames run together, and how long the first of them waits for company.

Sans-IO. A batch starts when it is full, when its time for company is over, or when waiting for one more would make its
most urgent frame late by the measured costs: whichever comes first. With `max` 1 nothing ever waits.
"""

from dataclasses import dataclass

from cloud.scheduling.cost_curve import CostCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRule:
    """At most `max` frames a run; a frame waits at most `wait_us` for others while the model could run it."""

    max: int = 1
    wait_us: int = 0

    def start_us(
        self, *, waiting: int, since_us: int, urgent_us: int, decode_us: int, curve: CostCurve
    ) -> int:
        """When a batch of the `waiting` frames (1 or more) should start; a time in the past means now.

        `since_us`: when the first of them began to wait with a free model before it. `urgent_us`: the
        earliest deadline among them. `decode_us`: of a picture that is not decoded yet.
        """
        if waiting >= self.max or not self.wait_us:
            return since_us
        late_us = curve.late_us(min(waiting + 1, self.max)) + decode_us
        return min(since_us + self.wait_us, urgent_us - late_us)
