"""The kinds of detector, and what a configuration may say about each.

Naming a kind imports none of its code: `DETECTORS.build` does.
"""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from pipelines.blocks import Block, InputFile, Sha256, Words
from pipelines.registry import Family, Kind
from pipelines.units import Duration, Extent, Fraction, duration

MOST_INPUT_PX = 4096


class CenterFaceConfig(Block):
    """Faces, by the CenterFace ONNX model."""

    kind: Literal["centerface"]
    model: InputFile = Field(description="the ONNX file")
    sha256: Sha256 | None = Field(None, description="64 hex digits: refuse another file")
    input: Extent = Field(description="what the model runs at, multiples of 32 px")
    min_score: Fraction = Field(0.5, description="boxes below it are dropped")
    iou: Fraction = Field(0.3, description="boxes that overlap a better one by more are dropped")
    threads: int = Field(1, ge=1, le=64, description="threads of one run")
    fit: Literal["stretch", "letterbox"] = Field(
        "stretch", description="how a picture is brought to the input"
    )

    @field_validator("input")
    @classmethod
    def _suits_the_network(cls, size_px: tuple[int, int]) -> tuple[int, int]:
        if any(side % 32 or side > MOST_INPUT_PX for side in size_px):
            raise ValueError(f"both sides must be multiples of 32 px and at most {MOST_INPUT_PX}")
        return size_px


class SyntheticDetectorConfig(Block):
    """No model: boxes derived from the picture after a set time. For rehearsals and tests."""

    kind: Literal["synthetic"]
    delay: Duration = Field(duration("10ms"), description="how long a run takes")
    labels: Annotated[Words, Field(min_length=1)] = Field(("thing",), description="index = class id")
    boxes: int = Field(1, ge=0, le=1000, description="boxes per picture")
    input: Extent = Field((320, 240), description="what it claims to run at")
    fail_every: int | None = Field(None, ge=1, description="every how manieth run breaks; left out: none")


DetectorConfig = Annotated[CenterFaceConfig | SyntheticDetectorConfig, Field(discriminator="kind")]
DETECTORS_NOT_BUILT = {
    "detector.kind=yolox": "the yolox detector is not built yet; use centerface or synthetic",
}

DETECTORS = Family(
    "detector",
    Kind(
        name="centerface",
        config=CenterFaceConfig,
        target="pipelines.detectors.centerface:CenterFace",
        words="faces, by the CenterFace ONNX model",
        extra="onnx",
        needs=("onnxruntime",),
    ),
    Kind(
        name="synthetic",
        config=SyntheticDetectorConfig,
        target="pipelines.detectors.synthetic:SyntheticDetector",
        words="no model: boxes derived from the picture after a set time",
    ),
)
