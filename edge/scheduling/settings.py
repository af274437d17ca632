"""What a scheduler is told before the first frame: links, streams, ladder, prices. Durations in µs.

Every default works untuned: prices are in accuracy (0..1), so that they compare with what a rung is worth.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edge.scheduling.fair_share import WEIGHTS
from edge.scheduling.priority_rule import PriorityRule
from edge.scheduling.rung import Rung
from pipelines.result import Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """`metered`: pings and probes back off while over budget. The budgets cover everything sent; None = free."""

    name: str = "link"
    metered: bool = False
    bytes_per_hour: int | None = None
    bytes_per_day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """`pixels` of a frame at scale 1.0 of the ladder, from which payload sizes are guessed before the first;
    `size_px` (width, height) of the source, in which boxes and regions are."""

    pixels: int
    size_px: tuple[int, int] = (0, 0)
    priority: Priority = Priority.NORMAL
    rules: tuple[PriorityRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallNear:
    """A smaller near input: the second fallback, when the full one can no longer finish."""

    accuracy: float
    prior_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """A tracker that carries an answer at most `max_age` captured frames forward, at first believed to take `guard_us`."""

    accuracy: float
    max_age: int = 5
    guard_us: int = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """`deadline_us` bounds the margin; `near_accuracy` None = there is no near.

    `byte_price`: accuracy per kB. `load_price`: accuracy per service time queued at the worker.
    `unsure_below`: near confidence under which the confidence policy asks far. Frames of the priorities in
    `duplicate` go over two links, as long as that is at most `duplicate_share` of the bytes sent. `weights` share
    near and links among streams by priority.
    """

    deadline_us: int
    margin_us: int
    ladder: tuple[Rung, ...]
    near_accuracy: float | None
    near_prior_us: int
    fall_back_above_us: int
    return_below_us: int
    policy: str = "deadline"
    hedge: str = "late"  # late | immediate | never
    min_p: float = 0.1
    byte_price: float = 0.001
    load_price: float = 0.005
    unsure_below: float = 0.6
    links: tuple[LinkSettings, ...] = (LinkSettings(),)
    small_near: SmallNear | None = None
    tracking: Tracking | None = None
    duplicate: frozenset[Priority] = frozenset()
    duplicate_share: float = 0.1
    weights: Mapping[Priority, float] = field(default_factory=lambda: WEIGHTS)
