"""The kinds of codec, and the rung of a ladder that names one."""

from typing import Literal, Self

from pydantic import Field, model_validator

from pipelines.blocks import Block, MisfitError
from pipelines.registry import Family, Kind
from pipelines.units import Fraction, Size

DEFAULT_QUALITY = 50
DEFAULT_LEVEL = 1
# Compression levels each lossless codec takes.
LEVELS = {"png": range(10), "zstd": range(1, 20)}


class CodecConfig(Block):
    """How pictures are compressed."""

    codec: Literal["jpeg", "png", "zstd"] = Field(
        "jpeg",
        description="how pictures are compressed; png and zstd are lossless and carry 16 bits as well",
    )
    quality: int | None = Field(
        default_factory=lambda data: DEFAULT_QUALITY if data.get("codec") == "jpeg" else None,
        ge=1,
        le=100,
        description="JPEG quality; jpeg only",
        json_schema_extra={"default": DEFAULT_QUALITY},
    )
    level: int | None = Field(
        default_factory=lambda data: DEFAULT_LEVEL if data.get("codec") in LEVELS else None,
        ge=0,
        le=19,
        description="of compression, png 0 to 9, zstd 1 to 19; lossless codecs only",
        json_schema_extra={"default": DEFAULT_LEVEL},
    )

    @model_validator(mode="after")
    def _suits_the_codec(self) -> Self:
        levels = LEVELS.get(self.codec)
        if levels is None:
            if self.level is not None:
                raise MisfitError((("level",), f"{self.codec} has no level; set quality"))
            if self.quality is None:
                raise MisfitError((("quality",), f"{self.codec} needs a quality, 1 to 100"))
            return self
        if self.quality is not None:
            raise MisfitError((("quality",), f"{self.codec} is lossless and has no quality; leave it out"))
        if self.level not in levels:
            raise MisfitError((("level",), f"{self.codec} takes {levels[0]} to {levels[-1]}"))
        return self

    @property
    def wire_quality(self) -> int:
        """As an encoding says it: 0 for a codec that has none."""
        return self.quality or 0


class RungConfig(CodecConfig):
    """One rung of the ladder: how a frame is made small for the link."""

    scale: float = Field(
        1.0,
        gt=0,
        le=1,
        description="relative to the far model's input; never above the source; lossless from there on",
    )
    accuracy: Fraction = Field(1.0, description="of a far answer at this rung, against the best one")
    bytes: Size | None = Field(
        None,
        description="mean payload, by `nearfar calibrate`: what is expected until frames were encoded; left out: guessed",
    )

    @model_validator(mode="after")
    def _holds_a_picture(self) -> Self:
        if self.bytes == 0:
            raise MisfitError(
                (("bytes",), "a payload has at least one byte; leave it out if it is not known")
            )
        return self


CODECS = Family(
    "codec",
    Kind(
        name="jpeg",
        config=RungConfig,
        target="pipelines.codecs.jpeg:JpegCodec",
        words="JPEG, quality 1 to 100; 8 bits, colour or gray",
    ),
    Kind(
        name="png",
        config=RungConfig,
        target="pipelines.codecs.png:PngCodec",
        words="PNG, lossless; 8 or 16 bits, colour or gray",
    ),
    Kind(
        name="zstd",
        config=RungConfig,
        target="pipelines.codecs.zstd:ZstdCodec",
        words="raw pixels by zstd, lossless and quick; thermal, depth, 8 or 16 bits, colour or gray",
    ),
)
