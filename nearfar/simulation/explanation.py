"""Where a policy lost against a bound that knows the future: frame by frame, what the bound did and the policy did not.

    loss of a frame = ((hits of the bound − hits of the policy) − F1 · (weight of the bound − weight of the policy)) / weight

summed over all frames: the difference in F1, but for its curvature. So every cause has its part of the gap.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from edge.scheduling.key import Key
from nearfar.simulation.accuracies import Accuracies
from nearfar.simulation.outcome import FrameEnd, Outcome, Sent
from nearfar.simulation.scenario import Scenario, World
from nearfar.simulation.summary import on_time_f1
from pipelines.result import AnsweredBy

_FIGURE = re.compile(r" \d+ ms")
"""Two reasons that differ in a figure are one cause."""


@dataclass(frozen=True, slots=True)
class Cause:
    """`lost` of F1 over `frames` frames."""

    name: str
    frames: int
    lost: float


def explain(outcome: Outcome, bound: Outcome, scenario: Scenario) -> list[Cause]:
    """The causes, dearest first. Both outcomes are of the same scenario."""
    world = World(scenario)
    accuracies = scenario.accuracies
    f1 = on_time_f1(list(outcome.ends.values()), scenario)
    sent: dict[Key, Sent] = {way.key: way for way in outcome.sent}
    causes: dict[str, tuple[int, float]] = {}
    total = 0.0
    mean_bytes = _mean_bytes(accuracies)
    for key, end in outcome.ends.items():
        best = bound.ends[key]
        picture = world.picture(key)
        hits, weight = _score(end, accuracies, picture)
        best_hits, best_weight = _score(best, accuracies, picture)
        total += best_weight
        name = _cause(end, best, sent.get(key), mean_bytes)
        frames, lost = causes.get(name, (0, 0.0))
        causes[name] = (frames + 1, lost + (best_hits - hits) - f1 * (best_weight - weight))
    found = [Cause(name, frames, lost / (total or 1.0)) for name, (frames, lost) in causes.items()]
    return sorted(found, key=lambda cause: -cause.lost)


def table(causes: list[Cause], *, gap: float) -> str:
    """One row a cause; `gap`: F1 of the bound − F1 of near_only, of which each has its share."""
    rows = [f"{'lost through':<44}{'frames':>8}{'F1':>9}{'of gap':>8}"]
    for cause in causes:
        share = f"{100 * cause.lost / gap:.1f} %" if gap > 0 else "–"
        rows.append(f"{cause.name:<44}{cause.frames:>8}{cause.lost:>9.4f}{share:>8}")
    return "\n".join(rows)


def _cause(end: FrameEnd, best: FrameEnd, sent: Sent | None, mean_bytes: Mapping[int, float]) -> str:
    far = end.by is AnsweredBy.FAR and end.on_time
    if best.by is not AnsweredBy.FAR:
        return f"bound {'near' if best.by is AnsweredBy.NEAR else 'nothing'}, policy {'far' if far else 'not far'}"
    if far:
        more = mean_bytes[best.rung] - mean_bytes[end.rung]
        return (
            "far, at the same rung" if not more else f"far, at a {'smaller' if more > 0 else 'larger'} rung"
        )
    if sent is not None:
        way = "as a probe" if sent.probe else "for an answer"
        return f"sent {way}, {'never back' if sent.arrived_us is None else 'back late'}"
    return f"not sent: {_FIGURE.sub('', end.reason) or 'shed'}"


def _mean_bytes(accuracies: Accuracies) -> dict[int, float]:
    return {i: sum(sizes) / len(sizes) for i, sizes in enumerate(accuracies.size_bytes)}


def _score(end: FrameEnd, accuracies: Accuracies, picture: int) -> tuple[float, float]:
    scores = accuracies.missed
    if end.on_time and end.by is AnsweredBy.FAR:
        scores = accuracies.rungs[end.rung]
    elif end.on_time and end.by is AnsweredBy.NEAR:
        small = accuracies.small_near
        scores = small if end.small and small is not None else accuracies.near
    return scores.hits[picture], scores.weight[picture]
