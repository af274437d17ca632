"""Which records are worth a person's look, and why."""

from typing import TYPE_CHECKING

from pipelines import hard
from pipelines.result import AnsweredBy, Priority

if TYPE_CHECKING:
    from cloud.store.row import RecordRow


def why_hard(row: "RecordRow", *, unsure_below: float) -> tuple[str, ...]:
    """The reasons of `pipelines.hard.why_hard`; empty: nothing to look at."""
    by_far = row.answered_by is AnsweredBy.FAR
    return hard.why_hard(
        given=None if by_far and row.far_detections is not None else row.detections,
        far=row.far_detections,
        priority=Priority.HIGH if row.priority == Priority.HIGH.value else Priority.NORMAL,
        late=row.late_far,
        missed=row.answered_by is AnsweredBy.MISSED,
        unsure_below=unsure_below,
    )
