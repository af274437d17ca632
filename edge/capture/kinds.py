"""The kinds of source, and what a configuration may say about each.

Naming a kind imports none of its code: `SOURCES.build` does.
"""

from typing import Annotated, Literal

from pydantic import Field

from pipelines.blocks import Block, InputFile
from pipelines.registry import Family, Kind
from pipelines.units import Duration, Extent, duration


class FileSourceConfig(Block):
    """A video file, played at its own pace or read as fast as frames are taken."""

    kind: Literal["file"]
    path: InputFile = Field(description="anything OpenCV opens")
    pace: Literal["real_time", "as_fast_as_possible"] = "real_time"
    fps: float | None = Field(
        None, gt=0, le=1000, description="frames per second; left out: what the file says"
    )
    loop: bool = Field(False, description="start again at the end")
    frames: Literal["latest", "every"] = Field(
        "latest",
        description="latest: a newer frame replaces a waiting one; every: pull-driven, none is replaced",
    )
    latency: Duration = Field(duration("0ms"), description="age of a frame when it becomes available")


class SyntheticSourceConfig(Block):
    """A moving square on noise. For rehearsals and tests."""

    kind: Literal["synthetic"]
    size: Extent = Field((640, 360), description="of the pictures")
    fps: float = Field(25.0, gt=0, le=1000, description="frames per second")
    pace: Literal["real_time", "as_fast_as_possible"] = "real_time"
    frames: Literal["latest", "every"] = "latest"
    latency: Duration = Field(duration("0ms"), description="age of a frame when it becomes available")
    count: int | None = Field(None, ge=1, description="frames until it ends; left out: never")
    seed: int = Field(0, ge=0, description="of the noise")


SourceConfig = Annotated[FileSourceConfig | SyntheticSourceConfig, Field(discriminator="kind")]

SOURCES = Family(
    "source",
    Kind(
        name="file",
        config=FileSourceConfig,
        target="edge.capture.file:FileSource",
        words="a video file, in real time or as fast as possible",
    ),
    Kind(
        name="synthetic",
        config=SyntheticSourceConfig,
        target="edge.capture.synthetic:SyntheticSource",
        words="a moving square on noise",
    ),
)
