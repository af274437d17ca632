"""Whatever a camera shows and whenever its frames come, a motion gate keeps to its two intervals."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.frame import Picture
from pipelines.gates.base import Why
from pipelines.gates.motion import MotionGate

DICE = np.random.default_rng(3)
STILL: Picture = DICE.integers(80, 120, (24, 32, 3)).astype(np.uint8)
MOVED = STILL.copy()
MOVED[4:16, 4:16] = 250
PICTURES: list[Picture] = [STILL, MOVED, 255 - STILL, STILL // 2, np.zeros_like(STILL)]
LEAST_US, MOST_US = 1_000_000, 150_000

gaps_us = st.one_of(st.integers(1, 200_000), st.integers(1, 12_000_000))
films = st.lists(st.tuples(gaps_us, st.sampled_from(range(len(PICTURES)))), min_size=1, max_size=60)


@given(film=films, method=st.sampled_from(["mog2", "difference"]), bounded=st.booleans())
@settings(max_examples=80, deadline=None)
def test_a_frame_passes_at_the_latest_when_its_interval_is_over_and_never_before_its_turn(
    film, method, bounded
):
    gate = MotionGate(
        min_area=0.01,
        at_least_every_us=LEAST_US,
        at_most_every_us=MOST_US if bounded else None,
        method=method,
    )
    now_us = 5_000_000
    passed: list[int] = []
    for gap_us, index in film:
        now_us += gap_us
        verdict = gate.judge(PICTURES[index], now_us)
        assert 0 <= verdict.moving <= 1
        assert verdict.passes == (verdict.why not in (Why.STILL, Why.RATE))
        if not passed or now_us - passed[-1] >= LEAST_US:
            assert verdict.passes
        if verdict.passes:
            passed.append(now_us)
    if bounded:
        for i, begun_us in enumerate(passed):
            for count, at_us in enumerate(passed[i:]):
                assert count <= (at_us - begun_us) / MOST_US + 1
