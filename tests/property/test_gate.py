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

gaps_us = st.one_of(st.integers(1, 200_000), st.integers(1, 90_000_000))
films = st.lists(st.tuples(gaps_us, st.sampled_from(range(len(PICTURES)))), min_size=1, max_size=60)


@given(
    film=films,
    method=st.sampled_from(["mog2", "difference"]),
    least_us=st.integers(200_000, 120_000_000),
    bound=st.one_of(st.none(), st.floats(0.01, 0.99)),
)
@settings(max_examples=80, deadline=None)
def test_a_frame_passes_at_the_latest_when_its_interval_is_over_and_never_before_its_turn(
    film, method, least_us, bound
):
    most_us = None if bound is None else round(bound * least_us)
    gate = MotionGate(
        min_area=0.01,
        at_least_every_us=least_us,
        at_most_every_us=most_us,
        method=method,
    )
    now_us = 5_000_000
    passed: list[int] = []
    for gap_us, index in film:
        now_us += gap_us
        verdict = gate.judge(PICTURES[index], now_us)
        assert verdict.passes == (verdict.why not in (Why.STILL, Why.RATE))
        if not passed or now_us - passed[-1] >= least_us:
            assert verdict.passes
        if verdict.passes:
            passed.append(now_us)
    if most_us is not None:
        for i, begun_us in enumerate(passed):
            for count, at_us in enumerate(passed[i:]):
                assert count <= (at_us - begun_us) / most_us + 1
