"""What it is worth to send a frame far: one function a policy, in accuracy (0..1). Not above 0 = near.

Each sees the same `View`; how frames are carried, hedged and counted is the scheduler's business and the
same for all. Policies differ only in value.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple


class View(NamedTuple):
    """One way to answer one frame. `p`: probability that it is on time; `accuracy` of the rung; `fallback`: of
    the answer that stands behind it; `price`: of bytes and worker load; `near_confidence`: what near said of
    this frame, None before it ran; `near_waits`: near could still answer it."""

    p: float
    accuracy: float
    fallback: float
    price: float
    min_p: float
    near_waits: bool = False
    near_confidence: float | None = None
    unsure_below: float = 0.0


Policy = Callable[[View], float]


def deadline(view: View) -> float:
    """p · (accuracy − accuracy of the true fallback) − price, where p ≥ min_p."""
    if view.p < view.min_p:
        return 0.0
    return view.p * (view.accuracy - view.fallback) - view.price


def confidence(view: View) -> float:
    """As `deadline`, for what near was unsure of or cannot answer; near looks first."""
    if view.near_confidence is None:
        return 0.0 if view.near_waits else deadline(view)
    return deadline(view) if view.near_confidence < view.unsure_below else 0.0


def threshold(view: View) -> float:
    """Far while the round trip is inside the band, at the best rung; no hedge. The plain rule."""
    return view.accuracy


def far_only(view: View) -> float:
    """Far whenever there is a connection, whatever its round trip, at the best rung."""
    return view.accuracy


def near_only(view: View) -> float:  # noqa: ARG001 - a policy sees the view
    return 0.0


POLICIES: Mapping[str, Policy] = {
    "deadline": deadline,
    "confidence": confidence,
    "threshold": threshold,
    "near_only": near_only,
    "far_only": far_only,
}
HEDGED = frozenset({"deadline", "confidence"})
"""Policies whose offloaded frames own a near slot, and which weigh when a frame would be back."""
ASKS_AFTER_NEAR = frozenset({"confidence"})
IGNORES_BAND = frozenset({"far_only"})
WITHOUT_FAR = frozenset({"near_only"})
