"""Numbers and durations of a command line: finite, and bounded by what can be meant.

What no clock, file or database can hold is refused here with words, so that it fails nowhere behind.
"""

from math import isnan
from typing import Any

import click

from pipelines.units import bounded_duration

MOST = 1_000_000_000
"""Of rows, frames or pictures: nobody means more, and every database can count them."""
SEEDS = 2**63 - 1


class DurationOption(click.ParamType[int]):
    """µs, written like `40ms`; `name` is how help calls it."""

    def __init__(self, name: str = "DURATION") -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(bounded_duration(str(value)))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class FiniteRange(click.FloatRange):
    """A float within bounds; `nan` compares as if it were within any."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number
