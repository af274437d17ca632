"""The kinds of gate, and what a configuration may say about each.

Naming a kind imports none of its code: `GATES.build` does.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from pipelines.blocks import Block, MisfitError
from pipelines.registry import Family, Kind
from pipelines.units import Duration, Fraction, duration


class MotionGateConfig(Block):
    """Only frames in which something moves are answered, and one now and then; the others are counted as gated."""

    kind: Literal["motion"]
    min_area: Fraction = Field(0.005, gt=0, description="share of the picture that has to move")
    at_least_every: Duration = Field(
        duration("2s"), gt=0, description="a frame passes this long after the last one, moving or not"
    )
    at_most_every: Duration | None = Field(
        None, gt=0, description="frames sooner than this after the last one never pass; left out: no bound"
    )
    method: Literal["mog2", "difference"] = Field(
        "mog2",
        description="mog2: background as a mixture, for leaves and water; difference: from a running mean, cheapest",
    )

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.at_most_every is not None and self.at_most_every >= self.at_least_every:
            raise MisfitError((("at_most_every",), "must be below at_least_every, or it decides alone"))
        return self


GateConfig = MotionGateConfig

GATES = Family(
    "gate",
    Kind(
        name="motion",
        config=MotionGateConfig,
        target="pipelines.gates.motion:MotionGate",
        words="frames in which something moves, and one now and then",
    ),
)
