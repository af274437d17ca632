"""What every gate promises, whatever it looks at; one built of its configuration as a recipe would."""

import weakref
from collections.abc import Callable

import numpy as np
import pytest

from pipelines.frame import Picture
from pipelines.gates.base import Gate, Why
from pipelines.gates.kinds import GATES
from pipelines.registry import Kind

FRAME_US = 40_000
BEGUN_US = 10_000_000
PASSES = {Why.FIRST, Why.MOTION, Why.SCENE, Why.KEYFRAME}
NOISE = np.random.default_rng(11).integers(90, 130, (4, 240, 320, 3), np.uint8)
Make = Callable[[], Gate]


def still(seq: int) -> Picture:
    """A scene in which nothing moves but the sensor's noise."""
    return np.array(NOISE[seq % len(NOISE)])


def walked(seq: int) -> Picture:
    """The same with somebody who crosses it within 40 frames."""
    picture = still(seq)
    left = 7 * (seq % 40)
    picture[80:180, left : left + 40] = 20
    return picture


@pytest.fixture(params=list(GATES), ids=lambda kind: kind.name)
def make(request: pytest.FixtureRequest) -> Make:
    kind: Kind = request.param

    def made() -> Gate:
        gate: Gate = GATES.build(kind.config.model_validate({"kind": kind.name}))
        return gate

    return made


def judge(gate: Gate, picture: Picture, seq: int) -> Why:
    """Its reason, which has to be one for what it decided."""
    verdict = gate.judge(picture, BEGUN_US + seq * FRAME_US)
    assert verdict.passes is (verdict.why in PASSES)
    return verdict.why


def test_the_first_frame_of_a_stream_and_of_another_picture_size_passes(make: Make) -> None:
    gate = make()
    assert judge(gate, still(0), 0) is Why.FIRST
    for seq in range(1, 10):
        assert judge(gate, still(seq), seq) is not Why.FIRST
    assert judge(gate, still(10)[:120], 10) is Why.FIRST


def test_a_scene_in_which_nothing_moves_costs_a_tenth_at_most_and_is_never_lost_from_sight(
    make: Make,
) -> None:
    gate = make()
    passed = [seq for seq in range(500) if judge(gate, still(seq), seq) in PASSES]
    assert len(passed) <= 50
    assert max(np.diff([*passed, 500])) * FRAME_US <= 10_000_000


def test_somebody_who_walks_through_is_let_pass(make: Make) -> None:
    gate = make()
    for seq in range(50):
        judge(gate, still(seq), seq)
    assert sum(judge(gate, walked(seq), seq) in PASSES for seq in range(50, 90)) >= 20


def test_a_gate_keeps_no_frame_and_writes_to_none(make: Make) -> None:
    gate = make()
    for seq in range(4):
        picture = walked(seq)
        picture.setflags(write=False)
        judge(gate, picture, seq)
        assert np.array_equal(picture, walked(seq))
        seen = weakref.ref(picture)
        del picture
        assert seen() is None


def test_the_gates_of_two_streams_know_nothing_of_each_other(make: Make) -> None:
    yard, gate = make(), make()
    alone = [judge(gate, walked(seq), seq) for seq in range(60)]
    neighbour, beside = make(), []
    for seq in range(60):
        beside.append(judge(yard, walked(seq), seq))
        judge(neighbour, still(seq)[:100, :100], seq)
    assert beside == alone


@pytest.mark.parametrize(
    "odd",
    [
        np.zeros((1, 1), np.uint8),
        np.zeros((2000, 3, 3), np.uint8),
        np.full((48, 64), 40_000, np.uint16),
        np.zeros((48, 64, 3), np.uint16),
    ],
    ids=lambda picture: f"{picture.shape}-{picture.dtype}",
)
def test_pictures_of_any_size_and_depth_are_judged_in_the_middle_of_a_stream(
    make: Make, odd: Picture
) -> None:
    gate = make()
    judge(gate, still(0), 0)
    assert judge(gate, odd, 1) in PASSES
    assert judge(gate, still(2), 2) in PASSES


def test_a_picture_without_pixels_hurts_no_frame_after_it(make: Make) -> None:
    gate = make()
    judge(gate, still(0), 0)
    for seq in (1, 2):
        with pytest.raises(Exception):  # noqa: B017 - whatever it is: who asks a gate takes every error for a pass
            judge(gate, np.zeros((0, 320, 3), np.uint8), seq)
    assert judge(gate, still(3), 3) in PASSES
    assert judge(gate, still(4), 4) not in PASSES
