"""Which records are worth a person's look, and why."""

from typing import TYPE_CHECKING

import numpy as np

from pipelines.agreement import disagree
from pipelines.result import AnsweredBy

if TYPE_CHECKING:
    from cloud.store.row import RecordRow


def why_hard(row: "RecordRow", *, unsure_below: float) -> tuple[str, ...]:
    """`disagree`: near (or the tracker) and far saw different things; `unsure`: a box with a score below; `missed`:
    nobody answered in time; `high_priority`. Empty: nothing to look at."""
    best = row.best
    given = None if row.answered_by is AnsweredBy.FAR else row.detections
    reasons = {
        "disagree": disagree(given, row.far_detections),
        "unsure": best is not None and bool(np.any(best.scores < unsure_below)),
        "missed": row.answered_by is AnsweredBy.MISSED,
        "high_priority": row.priority == "high",
    }
    return tuple(name for name, holds in reasons.items() if holds)
