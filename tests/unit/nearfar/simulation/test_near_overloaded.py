"""The promise where near cannot answer every frame, or only just: far may only add to what near alone makes in time."""

import pytest

from nearfar.simulation.dice import Durations
from nearfar.simulation.link.trace import LinkTrace
from nearfar.simulation.outcome import Outcome
from tests.support.simulated import MS, S, link, run, scenario

NEAR_MS = 40
FRAMES = 800
NEVER_BELOW = 0.002
LINKS: dict[str, LinkTrace] = {
    "lossy": link(mbit=20, loss=0.02, jitter_us=6_000),
    "border": link(mbit=20, rtt_ms=55, jitter_us=10_000),
    "step": link(mbit=20, rtt_steps=tuple((i * 2 * S, 200.0 if i % 2 else 20.0) for i in range(1, 40))),
    "thin": link(mbit=1.2, jitter_us=10_000),
}


def on_time(outcome: Outcome) -> float:
    return sum(end.on_time for end in outcome.ends.values()) / len(outcome.ends)


def both(
    trace: LinkTrace, *, load: float, streams: int = 1, near_ms: int = NEAR_MS, deadline_ms: int = 100
) -> tuple[Outcome, Outcome]:
    """(deadline, near_only) where frames ask for `load` of near's time."""
    names = tuple(f"s{i}" for i in range(streams))
    world = scenario(
        trace,
        near=Durations.spread(near_ms * MS),
        deadline_us=deadline_ms * MS,
        streams=names,
        fps=load * 1000 / near_ms / streams,
        frames=FRAMES // streams,
    )
    return run(world, "deadline"), run(world, "near_only")


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("load", [0.95, 1.1])
@pytest.mark.parametrize("deadline_ms", [75, 100])
def test_a_near_that_has_no_time_to_spare_answers_no_fewer_frames_for_having_a_link(
    name: str, load: float, deadline_ms: int
):
    ours, near = both(LINKS[name], load=load, deadline_ms=deadline_ms)
    assert on_time(ours) >= on_time(near) - NEVER_BELOW


@pytest.mark.parametrize("name", ["border", "thin"])
@pytest.mark.parametrize("streams", [2, 4])
def test_several_cameras_on_a_near_without_time_lose_nothing_to_far(name: str, streams: int):
    ours, near = both(LINKS[name], load=1.1, streams=streams)
    assert on_time(ours) >= on_time(near) - NEVER_BELOW


@pytest.mark.parametrize("load", [0.6, 0.95, 1.1])
def test_a_near_that_takes_most_of_the_deadline_leaves_no_time_for_a_second_try_and_needs_none(load: float):
    ours, near = both(LINKS["border"], load=load, near_ms=80)
    assert on_time(ours) >= on_time(near) - NEVER_BELOW


def test_a_good_link_answers_what_an_overloaded_near_cannot():
    ours, near = both(link(mbit=20), load=1.5)
    assert on_time(near) < 0.7
    assert on_time(ours) > 0.97
