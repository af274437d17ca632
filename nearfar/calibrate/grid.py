"""Which rungs to try where a recipe has none worth keeping, and which of those tried make the best ladder.

A rung is worth its place if no cheaper one is as good. Of those, the ladder is the set that gives most to a link nobody
knows: with B bytes to spend a frame gets the best rung that fits, so the area under that staircase of accuracy over
log B is maximised, exactly, by dynamic programming over the rungs in order of bytes.
"""

from collections.abc import Sequence
from math import log

from edge.config.scheduler_settings import rung_of
from nearfar.calibrate.figures import RungFigures
from pipelines.codecs.base import PictureShape
from pipelines.codecs.kinds import RungConfig

QUALITIES = (10, 20, 35, 50, 65, 80, 90)
SCALES = (0.35, 0.5, 0.625, 0.75, 0.875, 1.0)
MOST_RUNGS = 8
LEAST_GAIN = 0.004
"""Of accuracy, for which a dearer rung is worth a place: below it the next clip would decide otherwise."""


def candidates(shape: PictureShape, far_input: tuple[int, int]) -> tuple[RungConfig, ...]:
    """The grid for pictures of `shape` and a far input (width_px, height_px): JPEG, or zstd where 16 bits must travel.
    Scales that end in the same size are tried once."""
    tried: dict[tuple[tuple[int, int], int | None], RungConfig] = {}
    for scale in SCALES:
        for rung in _at_scale(scale, deep=shape.bits > 8):
            size_px = rung_of(rung).size_px((shape.width_px, shape.height_px), far_input)
            tried.setdefault((size_px, rung.quality), rung)
    return tuple(tried.values())


def suggest(
    tried: Sequence[RungFigures], *, near_accuracy: float, most: int = MOST_RUNGS
) -> tuple[RungFigures, ...]:
    """At most `most` of at least one, best first. Those that are not above near are left out, unless none is."""
    front = _front([figures for figures in tried if figures.accuracy > near_accuracy])
    if not front:
        return (max(tried, key=lambda figures: (figures.accuracy, -figures.bytes_mean)),)
    # what a link is worth beyond the dearest rung is the same for every ladder that has the most accurate one
    beyond = front[-1].bytes_mean * 2
    steps = [log(figures.bytes_mean) for figures in front] + [log(beyond)]
    gains = [figures.accuracy - near_accuracy for figures in front]
    # per rung: the best ladders that end with it, by length, and their area up to its bytes
    ends: list[list[tuple[float, tuple[int, ...]]]] = []
    for at in range(len(front)):
        grown = [
            max(
                (area + gains[below] * (steps[at] - steps[below]), (*ladder, at))
                for below in range(length - 1, at)
                for area, ladder in [ends[below][length - 1]]
            )
            for length in range(1, min(most, at + 1))
        ]
        ends.append([(0.0, (at,)), *grown])
    _, chosen = max(
        (area + gains[at] * (steps[-1] - steps[at]), ladder)
        for at, ladders in enumerate(ends)
        for area, ladder in ladders
    )
    return tuple(front[at] for at in reversed(chosen))


def _front(tried: Sequence[RungFigures]) -> list[RungFigures]:
    """Cheapest first, each better than every cheaper one by what is worth a place; the cheapest of the best last."""
    kept: list[RungFigures] = []
    for figures in sorted(tried, key=lambda f: (f.bytes_mean, -f.accuracy)):
        if not kept or figures.accuracy >= kept[-1].accuracy + LEAST_GAIN:
            kept.append(figures)
    return kept


def _at_scale(scale: float, *, deep: bool) -> tuple[RungConfig, ...]:
    if deep:
        return (RungConfig(codec="zstd", scale=scale),)
    return tuple(RungConfig(codec="jpeg", quality=quality, scale=scale) for quality in QUALITIES)
