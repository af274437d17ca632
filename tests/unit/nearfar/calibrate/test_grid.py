"""A suggested ladder: nothing dearer for nothing, nothing near does as well, and the best set of its size."""

from itertools import combinations, pairwise
from math import log

from hypothesis import given
from hypothesis import strategies as st

from nearfar.calibrate.figures import RungFigures
from nearfar.calibrate.grid import LEAST_GAIN, QUALITIES, SCALES, candidates, suggest
from pipelines.codecs.base import PictureShape
from tests.support.calibrated import rung, rung_figures

SHAPE = PictureShape(width_px=1280, height_px=720, channels=3, bits=8)


def test_the_grid_is_every_quality_at_every_scale():
    tried = candidates(SHAPE, (512, 512))
    assert {(step.quality, step.scale) for step in tried} == {(q, s) for q in QUALITIES for s in SCALES}


def test_scales_that_end_in_the_same_size_are_tried_once():
    small = PictureShape(width_px=320, height_px=240, channels=3, bits=8)
    assert {step.scale for step in candidates(small, (640, 640))} == {0.35, 0.5}


def test_pictures_of_16_bits_travel_without_loss():
    deep = PictureShape(width_px=640, height_px=512, channels=1, bits=16)
    tried = candidates(deep, (640, 512))
    assert {step.codec for step in tried} == {"zstd"}
    assert len(tried) == len(SCALES)


def test_a_rung_that_costs_more_and_sees_no_more_is_left_out():
    tried = [rung_figures(0.9, 9_000), rung_figures(0.89, 20_000), rung_figures(0.95, 30_000)]
    chosen = suggest(tried, near_accuracy=0.5)
    assert [figures.accuracy for figures in chosen] == [0.95, 0.9]


def test_what_near_does_as_well_is_left_out_unless_nothing_is_better():
    tried = [rung_figures(0.7, 4_000), rung_figures(0.9, 9_000)]
    assert [figures.accuracy for figures in suggest(tried, near_accuracy=0.8)] == [0.9]
    assert [figures.accuracy for figures in suggest(tried, near_accuracy=0.95)] == [0.9]


def test_the_best_come_first_and_there_are_not_more_than_asked_for():
    tried = [rung_figures(0.5 + 0.02 * i, 1_000 * 2**i, of=rung(10 + i)) for i in range(12)]
    chosen = suggest(tried, near_accuracy=0.4, most=4)
    accuracies = [figures.accuracy for figures in chosen]
    assert len(accuracies) == 4
    assert accuracies == sorted(accuracies, reverse=True)


def area(ladder: tuple[RungFigures, ...], *, near: float, beyond: float) -> float:
    ladder = tuple(sorted(ladder, key=lambda figures: figures.bytes_mean))
    ends = [log(figures.bytes_mean) for figures in ladder] + [log(beyond)]
    return sum((f.accuracy - near) * (ends[i + 1] - ends[i]) for i, f in enumerate(ladder))


@given(
    st.lists(
        st.tuples(st.integers(1, 19), st.integers(500, 90_000)),
        min_size=1,
        max_size=9,
        unique_by=lambda t: t[1],
    ),
    st.integers(1, 4),
)
def test_no_other_ladder_of_that_size_gives_more(points: list[tuple[int, int]], most: int):
    tried = [rung_figures(accuracy / 20, size, of=rung(1 + i)) for i, (accuracy, size) in enumerate(points)]
    chosen = suggest(tried, near_accuracy=0.0, most=most)
    assert 1 <= len(chosen) <= most
    best_accuracy = max(f.accuracy for f in tried)
    cheapest_best = min(f.bytes_mean for f in tried if f.accuracy == best_accuracy)
    beyond = 2 * cheapest_best
    within = [f for f in tried if f.bytes_mean <= cheapest_best]
    # rising ladders only: in any other a rung is dearer for nothing
    rising = (
        ladder
        for size in range(1, most + 1)
        for ladder in combinations(sorted(within, key=lambda f: f.bytes_mean), size)
        if all(b.accuracy >= a.accuracy + LEAST_GAIN for a, b in pairwise(ladder))
    )
    best = max(area(ladder, near=0.0, beyond=beyond) for ladder in rising)
    assert area(chosen, near=0.0, beyond=beyond) >= best - 1e-9
