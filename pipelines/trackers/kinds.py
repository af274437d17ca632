"""The kinds of tracker, and what a configuration may say about each.

Naming a kind imports none of its code: `TRACKERS.build` does.
"""

from typing import Literal

from pydantic import Field

from pipelines.blocks import Block
from pipelines.registry import Family, Kind
from pipelines.units import Fraction

MOST_AGE_FRAMES = 30


class FlowTrackerConfig(Block):
    """The boxes of the last answer, moved by what the picture inside them does (sparse optical flow)."""

    kind: Literal["flow"]
    max_age: int = Field(
        5,
        ge=1,
        le=MOST_AGE_FRAMES,
        description="captured frames since the answer that is carried; after that frames are missed",
    )
    accuracy: Fraction = Field(0.3, description="of a tracked answer, relative to the best far one")


TrackerConfig = FlowTrackerConfig

TRACKERS = Family(
    "tracker",
    Kind(
        name="flow",
        config=FlowTrackerConfig,
        target="pipelines.trackers.flow:FlowTracker",
        words="boxes of the last answer, moved by the optical flow inside them",
    ),
)
