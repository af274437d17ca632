"""What could be had with the future known is really the most, and no policy has more."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar.simulation.accuracies import Accuracies, Scores
from nearfar.simulation.comparison import gap_closed
from nearfar.simulation.dice import Durations
from nearfar.simulation.far_side import HEAD_BYTES, RESULT_BYTES
from nearfar.simulation.link.capacity import Opportunities, Rates
from nearfar.simulation.link.trace import Direction, LinkTrace
from nearfar.simulation.oracle import Oracle
from nearfar.simulation.scenario import Scenario, World
from nearfar.simulation.steps import Steps
from nearfar.simulation.summary import on_time_f1, summarise
from tests.support.simulated import LADDER, MS, POLICIES, link, run, scenario


def small(
    *,
    sizes: list[tuple[int, ...]],
    hits: list[tuple[int, ...]],
    stamps_ms: list[int],
    near_ms: int,
    fps: float,
) -> Scenario:
    """A few frames, two rungs, one link of opportunities. `hits`: (near, rung 0, rung 1) of 4 boxes a frame."""

    def scores(who: int) -> Scores:
        return Scores(tuple(2.0 * h[who] for h in hits), tuple(float(h[who] + 4 + 1) for h in hits))

    frames = len(sizes)
    accuracies = Accuracies(
        near=scores(0),
        missed=Scores((0.0,) * frames, (4.0,) * frames),
        ladder=LADDER[:2],
        rungs=(scores(1), scores(2)),
        size_bytes=(tuple(s[0] for s in sizes), tuple(s[1] for s in sizes)),
        encode_us=((2 * MS,), (MS,)),
    )
    trace = LinkTrace(
        name="few",
        up=Direction(capacity=Opportunities([s * MS for s in stamps_ms]), delay_us=Steps.constant(5 * MS)),
        down=Direction(capacity=Rates.constant(50), delay_us=Steps.constant(5 * MS)),
    )
    return Scenario(
        links=(trace,),
        accuracies=accuracies,
        near=Durations([near_ms * MS]),
        worker=Durations([12 * MS]),
        deadline_us=100 * MS,
        fps=fps,
        frames=frames,
    )


def f1_of(chosen: tuple[int, ...], world: Scenario) -> float | None:
    """F1 of a row of choices (−2 missed, −1 near, else a rung) played out plainly; None if one is late."""
    made = World(world)
    up, down = world.links[0].up, world.links[0].down
    served = 0.0
    worker_us = near_us = 0
    hits = weight = 0.0
    for seq, choice in enumerate(chosen, 1):
        key = ("camera", seq)
        at_us = made.captured_us(key)
        scores = world.accuracies.missed
        if choice == -1:
            near_us = max(near_us, at_us) + made.near_us(key)
            scores = world.accuracies.near
            if near_us > at_us + world.deadline_us:
                return None
        elif choice >= 0:
            start_us = at_us + made.encode_us(key, choice)
            served = max(served, up.capacity.offered(start_us)) + HEAD_BYTES + made.size_bytes(key, choice)
            there_us = max(start_us, up.capacity.reached_us(served)) + 5 * MS
            worker_us = max(worker_us, there_us) + made.worker_us(key)
            back_us = down.capacity.reached_us(down.capacity.offered(worker_us) + RESULT_BYTES) + 5 * MS
            scores = world.accuracies.rungs[choice]
            if back_us > at_us + world.deadline_us:
                return None
        hits += scores.hits[made.picture(key)]
        weight += scores.weight[made.picture(key)]
    return hits / weight


CASES = st.integers(2, 5).flatmap(
    lambda frames: st.fixed_dictionaries(
        {
            "sizes": st.lists(
                st.tuples(st.integers(3_000, 25_000), st.integers(500, 9_000)),
                min_size=frames,
                max_size=frames,
            ),
            "hits": st.lists(
                st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 4)),
                min_size=frames,
                max_size=frames,
            ),
            "stamps_ms": st.lists(st.integers(1, 60), min_size=3, max_size=40).map(sorted),
            "near_ms": st.sampled_from([10, 45, 90, 130]),
            "fps": st.sampled_from([15.0, 30.0, 60.0]),
        }
    )
)


@settings(max_examples=80, deadline=None)
@given(case=CASES)
def test_the_oracle_has_exactly_the_most_that_any_row_of_choices_has(case):
    world = small(**case)
    rows = product((-2, -1, 0, 1), repeat=world.frames)
    most = max(f1 for row in rows if (f1 := f1_of(row, world)) is not None)
    ends = list(Oracle(world).best().ends.values())
    assert on_time_f1(ends, world) == pytest.approx(most)


@settings(max_examples=60, deadline=None)
@given(case=CASES)
def test_what_greedy_chooses_can_be_played_and_is_not_above_the_oracle(case):
    world = small(**case)
    greedy = Oracle(world, most_states=1, knows_pictures=False).best()
    chosen = tuple(
        -2 if end.by == "missed" else end.rung
        for end in (greedy.ends["camera", i + 1] for i in range(world.frames))
    )
    played = f1_of(chosen, world)
    assert played is not None
    assert played == pytest.approx(on_time_f1(list(greedy.ends.values()), world))
    assert played <= on_time_f1(list(Oracle(world).best().ends.values()), world) + 1e-9


LINKS = (
    link(mbit=50),
    link(mbit=3),
    link(mbit=1),
    link(mbit=10, rtt_steps=((6_000_000, 200), (12_000_000, 30))),
    link(mbit=10, outage=(5_000_000, 9_000_000)),
    link(mbit=10, loss=0.02, jitter_us=8_000),
)


@pytest.mark.parametrize("trace", LINKS, ids=["fast", "slow", "crawl", "steps", "outage", "lossy"])
@pytest.mark.parametrize("fps", [15.0, 30.0])
def test_no_policy_is_above_the_oracle(trace, fps):
    world = scenario(trace, frames=150, fps=fps)
    bound = summarise(Oracle(world).best(), world).f1
    for policy in POLICIES:
        assert summarise(run(world, policy), world).f1 <= bound + 1e-9, policy


def test_the_share_of_the_gap_is_between_near_only_and_the_bound():
    world = scenario(link(mbit=5))
    near = summarise(run(world, "near_only"), world)
    best = summarise(Oracle(world).best(), world)
    between = replace(near, policy="deadline", f1=(near.f1 + 3 * best.f1) / 4)
    assert gap_closed([near, between, best])["deadline"] == pytest.approx(0.75)
    assert gap_closed([between, best]) == {}
