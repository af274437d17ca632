"""The kinds of detector, and what a configuration may say about each.

Naming a kind imports none of its code: `DETECTORS.build` does.
"""

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field, field_validator

from pipelines.blocks import Block, InputFile, Sha256, Words
from pipelines.registry import Family, Kind
from pipelines.units import Duration, Extent, Fraction, Microseconds, duration

MOST_INPUT_PX = 4096
MOST_LABELS = 65_535
MOST_DETECTIONS = 1000
"""Of one picture: suppression is quadratic, 1000 boxes take some 6 ms, 3000 some 50."""
_MIN_SCORE = "boxes below it are dropped"
_IOU = "boxes that overlap a better one of their class by more are dropped"
_FIT = "how a picture is brought to the input"


class _OnnxConfig(Block):
    """What every kind with an ONNX file takes."""

    model: InputFile = Field(description="the ONNX file")
    sha256: Sha256 | None = Field(None, description="64 hex digits: refuse another file")
    input: Extent = Field(description="what the model runs at, multiples of 32 px")
    max_detections: int = Field(
        300, ge=1, le=MOST_DETECTIONS, description="boxes of one picture; the best are kept"
    )
    threads: int = Field(1, ge=1, le=64, description="threads of one run")

    @field_validator("input")
    @classmethod
    def _suits_the_network(cls, size_px: tuple[int, int]) -> tuple[int, int]:
        if any(side % 32 or side > MOST_INPUT_PX for side in size_px):
            raise ValueError(f"both sides must be multiples of 32 px and at most {MOST_INPUT_PX}")
        return size_px


class CenterFaceConfig(_OnnxConfig):
    """Faces, by the CenterFace ONNX model."""

    kind: Literal["centerface"]
    min_score: Fraction = Field(0.5, description=_MIN_SCORE)
    iou: Fraction = Field(0.3, description=_IOU)
    fit: Literal["stretch", "letterbox"] = Field("stretch", description=_FIT)


class YunetConfig(_OnnxConfig):
    """Faces, by a YuNet ONNX model (2023 or later): several times as fast as CenterFace."""

    kind: Literal["yunet"]
    min_score: Fraction = Field(0.6, description=_MIN_SCORE)
    iou: Fraction = Field(0.3, description=_IOU)
    fit: Literal["stretch", "letterbox"] = Field("stretch", description=_FIT)


class YoloxConfig(_OnnxConfig):
    """Anything a YOLOX ONNX model was trained for; COCO's 80 classes without `labels`."""

    kind: Literal["yolox"]
    labels: Annotated[Words, Field(min_length=1, max_length=MOST_LABELS)] | None = Field(
        None, description="one per class, in the order of training; left out: COCO's 80"
    )
    decoded: bool | None = Field(
        None, description="whether the file gives boxes in pixels; left out: told from a first run"
    )
    min_score: Fraction = Field(0.35, description=_MIN_SCORE)
    iou: Fraction = Field(0.45, description=_IOU)

    @field_validator("labels")
    @classmethod
    def _are_told_apart(cls, labels: tuple[str, ...] | None) -> tuple[str, ...] | None:
        twice = [label for label, count in Counter(labels or ()).items() if count > 1]
        if twice:
            raise ValueError(
                f"{', '.join(twice)}: given more than once; a pipeline's label_map makes two classes one"
            )
        return labels


class SyntheticDetectorConfig(Block):
    """No model: boxes derived from the picture after a set time. For rehearsals and tests."""

    kind: Literal["synthetic"]
    delay: Duration = Field(duration("10ms"), description="how long a run takes")
    per_frame: Duration | None = Field(
        None, description="what each further picture of a batch adds; left out: as much as the first"
    )
    labels: Annotated[Words, Field(min_length=1)] = Field(("thing",), description="index = class id")
    boxes: int = Field(1, ge=0, le=MOST_DETECTIONS, description="boxes per picture")
    input: Extent = Field((320, 240), description="what it claims to run at")
    fail_every: int | None = Field(None, ge=1, description="3: every third run breaks; left out: none does")


DetectorConfig = Annotated[
    CenterFaceConfig | YunetConfig | YoloxConfig | SyntheticDetectorConfig, Field(discriminator="kind")
]


def at_input(config: DetectorConfig, size_px: tuple[int, int]) -> DetectorConfig:
    """The same detector at another input (width_px, height_px); a synthetic one is slower or faster by its pixels.

    Raises pydantic's ValidationError for an input this kind does not take.
    """
    said: dict[str, object] = {name: getattr(config, name) for name in config.model_fields_set}
    said["input"] = size_px
    if isinstance(config, SyntheticDetectorConfig):
        pixels, other = config.input[0] * config.input[1], size_px[0] * size_px[1]
        said["delay"] = Microseconds(config.delay * other // pixels)
        if config.per_frame is not None:
            said["per_frame"] = Microseconds(config.per_frame * other // pixels)
    return type(config).model_validate(said)


def computes(config: DetectorConfig) -> bool:
    """Whether a run keeps cores busy; one of a timer does not."""
    return hasattr(config, "threads")


def with_threads(config: DetectorConfig, threads: int) -> DetectorConfig:
    """The same detector with `threads` in one run, where it computes."""
    return config.model_copy(update={"threads": threads}) if computes(config) else config


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
        name="yunet",
        config=YunetConfig,
        target="pipelines.detectors.yunet:YuNet",
        words="faces, by a YuNet ONNX model: for small machines",
        extra="onnx",
        needs=("onnxruntime",),
    ),
    Kind(
        name="yolox",
        config=YoloxConfig,
        target="pipelines.detectors.yolox:Yolox",
        words="COCO's 80 classes or your own, by a YOLOX ONNX model",
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
