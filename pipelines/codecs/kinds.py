"""The kinds of codec, and the rung of a ladder that names one."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from pipelines.blocks import Block
from pipelines.registry import Family, Kind
from pipelines.units import Fraction


class RungConfig(Block):
    """One rung of the ladder: how a frame is made small for the link."""

    codec: Literal["jpeg"] = Field("jpeg", description="how pictures are compressed")
    quality: int = Field(50, ge=1, le=100, description="JPEG quality")
    scale: float = Field(
        1.0, gt=0, le=1, description="relative to the far model's input; never above the source"
    )
    accuracy: Fraction = Field(1.0, description="of a far answer at this rung, against the best one")

    not_built: ClassVar[Mapping[str, str]] = {
        "codec=lossless": "lossless rungs are not built yet; use jpeg with quality 90 or more",
    }


CODECS = Family(
    "codec",
    Kind(
        name="jpeg",
        config=RungConfig,
        target="pipelines.codecs.image:JpegCodec",
        words="JPEG, quality 1 to 100",
    ),
)
