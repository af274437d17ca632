"""The blocks a configuration is composed of: the strict base, file paths, and the kinds `pipelines` owns.

Every block refuses unknown keys, is frozen, takes no value of another type, and validates its defaults like
anybody's values. What is designed but not built is listed per block in `not_built` and refused with its
sentence, never ignored: entries are `key`, `key=value` for one value, `key.kind=value` for one kind.
Importing this module imports no cv2, onnxruntime or zmq: configurations are checked where they do not run.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic.fields import FieldInfo

from pipelines.units import Duration, Extent, Fraction, duration

Steps = tuple[str | int, ...]
"""A path inside a configuration: keys of mappings and indexes of lists."""


class Block(BaseModel):
    """Base of every configuration model."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_default=True)

    not_built: ClassVar[Mapping[str, str]] = {}


class MisfitError(ValueError):
    """Values that are right alone and wrong together; `faults` pairs each path below the block with words."""

    def __init__(self, *faults: tuple[Steps, str]) -> None:
        self.faults = faults
        super().__init__("; ".join(words for _, words in faults))


class MustExist:
    """Marks a path that is read: `missing_files` looks for it."""


def _resolve(value: Any, info: ValidationInfo) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("must be a file path")
    directory = (info.context or {}).get("directory", Path())
    return Path(directory) / Path(value).expanduser()


_PATH_SCHEMA = {"type": "string", "description": "a path; relative to the directory of this file"}
FilePath = Annotated[Path, BeforeValidator(_resolve), WithJsonSchema(_PATH_SCHEMA)]
"""A path to write to, resolved against the directory of the YAML file."""
InputFile = Annotated[Path, BeforeValidator(_resolve), WithJsonSchema(_PATH_SCHEMA), MustExist()]
"""A file that must exist when the configuration is used."""

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""What people call a stream, a link, a model or an agent: letters, digits, - and _; no dot, so `--set` paths work."""
Words = Annotated[tuple[str, ...], Field(strict=False)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""64 lower-case hex digits."""


def missing_files(block: Block, at: Steps = ()) -> Iterator[tuple[Steps, str]]:
    """Every path marked `InputFile` in the tree that is no readable file, with words."""
    for name, info in type(block).model_fields.items():
        value = getattr(block, name)
        if isinstance(value, Path) and _is_read(info):
            if not value.is_file():
                yield (*at, name), f"no such file: {value}"
        else:
            yield from _missing_below(value, (*at, name))


def _is_read(info: FieldInfo) -> bool:
    # `InputFile | None` carries its mark inside the union, `InputFile` beside the type.
    inside = (mark for option in get_args(info.annotation) for mark in getattr(option, "__metadata__", ()))
    return any(isinstance(mark, MustExist) for mark in (*info.metadata, *inside))


def _missing_below(value: object, at: Steps) -> Iterator[tuple[Steps, str]]:
    if isinstance(value, Block):
        yield from missing_files(value, at)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _missing_below(item, (*at, key))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _missing_below(item, (*at, index))


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
