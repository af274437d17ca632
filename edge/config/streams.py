"""A stream of a pipeline, as people write it: its source, its gate, and rules by which what the previous answer showed
decides how much the next frames matter."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from edge.capture.kinds import SourceConfig
from pipelines.blocks import Block, MisfitError
from pipelines.gates.kinds import GateConfig
from pipelines.result import Priority
from pipelines.units import Fraction

MAX_RULES = 16


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


class StreamConfig(Block):
    source: SourceConfig
    gate: GateConfig | None = Field(
        None, description="which frames are worth an answer; left out: every frame is answered"
    )
    priority: Priority = Field(
        Priority.NORMAL,
        strict=False,
        description="share of near and link, order in the outbox and in backfill",
    )
    rules: Annotated[tuple[StreamRuleConfig, ...], Field(strict=False, max_length=MAX_RULES)] = Field(
        (),
        description="another priority for 2 s after an answer that showed this; the first rule that fits counts",
    )

    not_built: ClassVar[Mapping[str, str]] = {
        "source.kind=rtsp": "a camera by its address is kind: camera, with url: rtsp://...",
        "source.kind=http": "a camera by its address is kind: camera, with url: http://...",
        "source.kind=mjpeg": "a camera by its address is kind: camera, with url: http://...",
        "source.kind=webcam": "a camera on this machine is kind: usb, with device: 0",
        "source.kind=v4l2": "a camera on this machine is kind: usb, with device: 0",
    }
