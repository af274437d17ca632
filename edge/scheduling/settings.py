"""What a scheduler is told once: deadline, margin, band, policy and what its answers are worth."""

from dataclasses import dataclass

from edge.scheduling.rung import Rung


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """`deadline_us` bounds the margin; `near_accuracy` and `near_prior_us` None/0 = there is no near."""

    deadline_us: int
    margin_us: int
    policy: str
    hedge: str  # late | immediate | never
    min_p: float
    byte_price: float
    rung: Rung
    near_accuracy: float | None
    near_prior_us: int
    fall_back_above_us: int
    return_below_us: int
