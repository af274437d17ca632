"""Which frames are worth a person's look, and why: one meaning, for the pictures that are kept and for those exported."""

import numpy as np

from pipelines.agreement import disagree
from pipelines.result import Detections, Priority


def why_hard(
    *,
    given: Detections | None,
    far: Detections | None,
    priority: Priority,
    late: bool,
    unsure_below: float,
    missed: bool = False,
) -> tuple[str, ...]:
    """`disagree`: what was `given` (near's or the tracker's; None: far's own, or not known) and `far` are different
    things; `unsure`: a box, of far's if there are any, with a score below; `late`: far's result came after its time;
    `missed`: nobody answered in time; `high_priority`. Empty: nothing to look at."""
    best = given if far is None else far
    reasons = {
        "disagree": disagree(given, far),
        "unsure": best is not None and bool(np.any(best.scores < unsure_below)),
        "late": late,
        "missed": missed,
        "high_priority": priority is Priority.HIGH,
    }
    return tuple(name for name, holds in reasons.items() if holds)
