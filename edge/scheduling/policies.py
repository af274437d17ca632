"""Who should answer a frame: one function a policy, differing only in value.

Each sees the same `View` and returns a `Choice`; how frames are carried, hedged and counted is the
scheduler's business and the same for all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum


class Choice(Enum):
    FAR = "far"
    NEAR = "near"
    WAIT = "wait"  # nobody can answer it now: leave it in its slot, where a newer frame may replace it


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a policy may know of one frame. Accuracies in 0..1; `p_far` is the probability that a far answer
    comes in time; `near_slot` is whether near can be reserved; `sample_due`: far was not tried for a while."""

    near_slot: bool
    far_possible: bool  # connected, in budget, within the credit
    connected: bool
    p_far: float
    far_accuracy: float
    near_accuracy: float
    size_bytes: int
    byte_price: float  # accuracy per kB
    min_p: float
    sample_due: bool


Policy = Callable[[View], Choice]


def deadline(view: View) -> Choice:
    """value = p · (accuracy far − accuracy of the fallback) − price · kB; sent if positive and p ≥ min_p.

    The fallback of a frame without a near slot is a miss, accuracy 0. An unsampled link is tried anyway
    while near stands behind the frame: without samples a link never looks better than it did.
    """
    if view.far_possible:
        fallback = view.near_accuracy if view.near_slot else 0.0
        value = view.p_far * (view.far_accuracy - fallback) - view.byte_price * view.size_bytes / 1000
        if (value > 0 and view.p_far >= view.min_p) or (view.sample_due and view.near_slot):
            return Choice.FAR
    return _near_or_wait(view)


def threshold(view: View) -> Choice:
    """Far while the round trip is inside the band, near otherwise; no hedge. The plain rule, for comparison."""
    return Choice.FAR if view.far_possible else _near_or_wait(view)


def near_only(view: View) -> Choice:
    return _near_or_wait(view)


def far_only(view: View) -> Choice:
    """Far whenever there is a connection, whatever its round trip."""
    return Choice.FAR if view.connected else Choice.WAIT


def _near_or_wait(view: View) -> Choice:
    return Choice.NEAR if view.near_slot else Choice.WAIT


POLICIES: Mapping[str, Policy] = {
    "deadline": deadline,
    "threshold": threshold,
    "near_only": near_only,
    "far_only": far_only,
}
HEDGED = frozenset({"deadline"})
"""Policies whose offloaded frames own a near slot."""
