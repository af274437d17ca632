"""Rules of a stream: what the previous answer showed decides how much the next frames matter."""

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from pipelines.blocks import Block, MisfitError
from pipelines.result import Priority
from pipelines.units import Fraction

_SIDES = ("left", "top", "right", "bottom")


class SeenConfig(Block):
    """Boxes an answer must have shown: all that is said here holds for each of them. Left out: any."""

    label: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="one of `labels`, or of the detector's own"
    )
    score_above: Fraction = Field(0.0, description="with a score of at least this")
    score_below: Fraction = Field(1.0, description="with a score of at most this")
    count_at_least: int = Field(1, ge=1, le=1000, description="how many such boxes")
    region: Annotated[tuple[Fraction, Fraction, Fraction, Fraction], Field(strict=False)] | None = Field(
        None, description="left, top, right, bottom as shares of the picture; a box counts by its centre"
    )

    @field_validator("region")
    @classmethod
    def _has_an_area(
        cls, region: tuple[float, float, float, float] | None
    ) -> tuple[float, float, float, float] | None:
        if region is not None and not (region[0] < region[2] and region[1] < region[3]):
            raise ValueError("is left, top, right, bottom: left must be below right and top below bottom")
        return region

    @model_validator(mode="after")
    def _can_be_met(self) -> Self:
        if self.score_above > self.score_below:
            raise MisfitError((("score_below",), "is below score_above: no box can meet both"))
        return self


class StreamRuleConfig(Block):
    """`priority` for the frames after an answer that showed `when`."""

    when: SeenConfig
    priority: Priority = Field(strict=False)
