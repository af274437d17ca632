"""The motion gate: what moves passes, what does not is counted, and no change of the camera closes it for good."""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from pydantic import ValidationError

from pipelines.blocks import MisfitError
from pipelines.frame import Picture
from pipelines.gates.base import Verdict, Why
from pipelines.gates.kinds import GATES, MotionGateConfig
from pipelines.gates.motion import MotionGate

FRAME_US = 40_000
METHODS = ["mog2", "difference"]


@pytest.fixture(params=METHODS)
def make(request: pytest.FixtureRequest) -> Callable[..., MotionGate]:
    def made(**changes) -> MotionGate:
        settings = {"min_area": 0.005, "at_least_every_us": 2_000_000, "method": request.param}
        return MotionGate(**(settings | changes))

    return made


class Scene:
    """A yard with sensor noise; `person` (left_px, top_px) stands in it, `light` multiplies it."""

    def __init__(self, size: tuple[int, int] = (640, 360), *, noise: float = 4.0, dtype=np.uint8) -> None:
        self.dice = np.random.default_rng(5)
        width, height = size
        blocks = self.dice.integers(60, 160, (height // 8, width // 8, 3)).astype(np.float32)
        self.yard = blocks.repeat(8, 0).repeat(8, 1)
        # Drawing noise for every picture would take longer than judging it.
        self.noises = [self.dice.normal(0, noise, self.yard.shape).astype(np.float32) for _ in range(8)]
        self.drawn = 0
        self.dtype = dtype

    def picture(self, person: tuple[int, int] | None = None, *, light: float = 1.0) -> Picture:
        seen = self.yard * np.float32(light)
        if person is not None:
            left, top = person
            seen[top : top + 100, left : left + 40] = (20, 30, 240)
        self.drawn += 1
        seen = seen + np.roll(self.noises[self.drawn % 8], self.drawn * 7, axis=1)
        if self.dtype == np.uint16:
            return np.asarray(np.clip(seen.mean(axis=2), 0, 255) * 12 + 29_000, np.uint16)
        return np.asarray(np.clip(seen, 0, 255), np.uint8)


def judged(gate: MotionGate, pictures: Iterable[Picture], *, from_us: int = 10_000_000) -> list[Verdict]:
    return [gate.judge(picture, from_us + i * FRAME_US) for i, picture in enumerate(pictures)]


def test_the_first_frame_passes_and_a_scene_without_motion_is_seen_once_per_interval(make):
    scene = Scene()
    verdicts = judged(make(), (scene.picture() for _ in range(150)))
    passed = [(i, v.why) for i, v in enumerate(verdicts) if v.passes]
    assert passed == [(0, Why.FIRST), (50, Why.KEYFRAME), (100, Why.KEYFRAME)]
    assert {v.why for v in verdicts if not v.passes} == {Why.STILL}


def test_a_person_who_walks_through_passes_with_every_frame_of_the_walk(make):
    scene, gate = Scene(), make()
    judged(gate, (scene.picture() for _ in range(30)))
    walk = judged(gate, (scene.picture((10 * i, 150)) for i in range(50)), from_us=11_200_000)
    assert [v.why for v in walk] == [Why.MOTION] * 50


def test_what_is_smaller_than_the_smallest_area_does_not_pass(make):
    scene, gate = Scene(), make(min_area=0.1)
    judged(gate, (scene.picture() for _ in range(30)))
    walk = judged(gate, (scene.picture((10 * i, 150)) for i in range(40)), from_us=11_200_000)
    assert Counter(v.why for v in walk)[Why.MOTION] == 0


def test_a_person_who_leaves_no_longer_passes_soon_after(make):
    scene, gate = Scene(), make(at_least_every_us=60_000_000)
    judged(gate, (scene.picture() for _ in range(30)))
    judged(gate, (scene.picture((10 * i, 150)) for i in range(50)), from_us=11_200_000)
    after = judged(gate, (scene.picture() for _ in range(50)), from_us=13_200_000)
    assert not any(v.passes for v in after[25:])


def test_a_change_of_light_opens_the_gate_once_and_the_new_light_is_the_scene(make):
    scene, gate = Scene(), make()
    judged(gate, (scene.picture() for _ in range(30)))
    bright = judged(gate, (scene.picture(light=1.5) for _ in range(40)), from_us=11_200_000)
    assert [v.why for v in bright if v.passes] == [Why.SCENE]
    assert bright[0].passes


def test_motion_is_seen_at_once_after_a_change_of_light(make):
    scene, gate = Scene(), make()
    judged(gate, (scene.picture() for _ in range(30)))
    pictures = [scene.picture(light=1.5), *(scene.picture((10 * i, 150), light=1.5) for i in range(10))]
    verdicts = judged(gate, pictures, from_us=11_200_000)
    assert [v.why for v in verdicts] == [Why.SCENE, *[Why.MOTION] * 10]


def test_another_picture_size_in_the_middle_of_a_stream_is_learned_anew(make):
    gate = make()
    small, large = Scene((320, 240)), Scene((1280, 720))
    judged(gate, (small.picture() for _ in range(10)))
    verdicts = judged(gate, (large.picture() for _ in range(20)), from_us=10_400_000)
    assert [v.why for v in verdicts] == [Why.FIRST, *[Why.STILL] * 19]


def test_a_camera_that_was_away_is_looked_at_anew(make):
    # F13
    scene, gate = Scene(), make(at_least_every_us=60_000_000)
    judged(gate, (scene.picture() for _ in range(10)))
    verdicts = judged(gate, (scene.picture() for _ in range(10)), from_us=30_000_000)
    assert [v.why for v in verdicts] == [Why.FIRST, *[Why.STILL] * 9]


def test_a_bound_of_the_rate_lets_motion_pass_that_often_and_no_more(make):
    scene, gate = Scene(), make(at_most_every_us=100_000)
    judged(gate, (scene.picture() for _ in range(30)))
    walk = judged(gate, (scene.picture((5 * (i % 100), 150)) for i in range(100)), from_us=11_200_000)
    why = Counter(v.why for v in walk)
    assert set(why) == {Why.MOTION, Why.RATE}
    assert why[Why.MOTION] == pytest.approx(100 * FRAME_US / 100_000, abs=1)


def test_the_jitter_of_a_camera_does_not_lower_the_bounded_rate():
    gate = MotionGate(
        min_area=0.005, at_least_every_us=2_000_000, at_most_every_us=100_000, method="difference"
    )
    scene, dice = Scene((320, 240)), np.random.default_rng(1)
    moments = [10_000_000 + i * 33_333 + int(dice.integers(-5_000, 5_000)) for i in range(300)]
    passed = sum(gate.judge(scene.picture((i % 25 * 10, 60)), at).passes for i, at in enumerate(moments))
    assert 90 <= passed <= 101


@pytest.mark.parametrize("every_s", [10, 30, 60, 600])
def test_however_long_the_bound_of_the_rate_a_scene_without_motion_is_still(make, every_s):
    gate = make(at_least_every_us=24 * 3600 * 10**6, at_most_every_us=every_s * 10**6)
    scene = Scene((320, 240))
    film = (
        (scene.picture(), 10_000_000 + second * 10**6) for second in range(0, 20 * every_s, every_s // 10)
    )
    why = Counter(gate.judge(picture, now_us).why for picture, now_us in film)
    assert why[Why.FIRST] == 1
    assert why[Why.STILL] > 50
    assert set(why) <= {Why.FIRST, Why.STILL, Why.RATE}


@pytest.mark.parametrize("period_s", [6, 20, 60])
def test_a_camera_of_few_pictures_a_minute_is_not_taken_for_one_that_was_away(make, period_s):
    scene, gate = Scene((320, 240)), make(at_least_every_us=24 * 3600 * 10**6)
    period_us = period_s * 10**6
    why = [gate.judge(scene.picture(), 10_000_000 + i * period_us).why for i in range(12)]
    assert why == [Why.FIRST] * 2 + [Why.STILL] * 10  # its pace is known from its second picture on
    assert gate.judge(scene.picture((100, 60)), 10_000_000 + 12 * period_us).why is Why.MOTION
    assert gate.judge(scene.picture(), 10_000_000 + 20 * period_us).why is Why.FIRST


def test_16_bit_pictures_are_judged_by_the_contrast_of_their_scene(make):
    scene, gate = Scene(dtype=np.uint16), make()
    still = judged(gate, (scene.picture() for _ in range(30)))
    assert [v.why for v in still] == [Why.FIRST, *[Why.STILL] * 29]
    walk = judged(gate, (scene.picture((10 * i, 150)) for i in range(20)), from_us=11_200_000)
    assert [v.why for v in walk] == [Why.MOTION] * 20


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 4000, 3), (3000, 2), (7, 5)])
def test_pictures_of_odd_sizes_are_judged(make, shape):
    gate = make()
    verdicts = judged(gate, (np.full(shape, value, np.uint8) for value in (10, 10, 250, 250)))
    assert [v.why for v in verdicts] == [Why.FIRST, Why.STILL, Why.SCENE, Why.STILL]


def test_a_gate_is_made_from_its_configuration():
    gate = GATES.build(MotionGateConfig.model_validate({"kind": "motion", "min_area": "10%"}))
    scene = Scene()
    verdicts = judged(gate, [scene.picture(), *(scene.picture((10 * i, 150)) for i in range(5))])
    assert [v.why for v in verdicts] == [Why.FIRST, *[Why.STILL] * 5]


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_area": 0},
        {"at_least_every": "0s"},
        {"at_most_every": "2s"},
        {"at_most_every": "3s"},
        {"method": "flow"},
        {"min_area": 5},
    ],
    ids=str,
)
def test_a_gate_that_could_not_work_is_refused(wrong):
    with pytest.raises((ValidationError, MisfitError)):
        MotionGateConfig.model_validate({"kind": "motion", **wrong})
