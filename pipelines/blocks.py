"""What the blocks of a configuration are made of: the strict base, names and file paths.

Every block refuses unknown keys, is frozen, takes no value of another type, and validates its defaults like
anybody's values. What is designed but not built is listed per block in `not_built` and refused with its
sentence, never ignored: entries are `key`, `key=value` for one value, `key.kind=value` for one kind.
Importing this module imports no cv2, onnxruntime or zmq: configurations are checked where they do not run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo

Steps = tuple[str | int, ...]
"""A path inside a configuration: keys of mappings and indexes of lists."""


class Block(BaseModel):
    """Base of every configuration model."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, validate_default=True, allow_inf_nan=False
    )

    not_built: ClassVar[Mapping[str, str]] = {}


class MisfitError(ValueError):
    """Values that are right alone and wrong together; `faults` pairs each path below the block with words."""

    def __init__(self, *faults: tuple[Steps, str]) -> None:
        self.faults = faults
        super().__init__("; ".join(words for _, words in faults))


@dataclass(frozen=True, slots=True)
class MustExist:
    """Marks a path that is read: `missing_files` looks for it. `kind`: "file" | "folder"."""

    kind: str = "file"

    def is_there(self, path: Path) -> bool:
        return path.is_dir() if self.kind == "folder" else path.is_file()


def _resolve(value: Any, info: ValidationInfo) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("must be a file path")
    directory = (info.context or {}).get("directory", Path())
    return Path(directory) / Path(value).expanduser()


_PATH_SCHEMA = {
    "type": "string",
    "description": "a path; relative to the directory of this file",
    "x-type": "path",
}
FilePath = Annotated[Path, BeforeValidator(_resolve), WithJsonSchema(_PATH_SCHEMA)]
"""A path to write to, resolved against the directory of the YAML file."""
InputFile = Annotated[Path, BeforeValidator(_resolve), WithJsonSchema(_PATH_SCHEMA), MustExist()]
"""A file that must exist when the configuration is used."""
InputFolder = Annotated[
    Path, BeforeValidator(_resolve), WithJsonSchema(_PATH_SCHEMA), MustExist(kind="folder")
]
"""A folder that must exist when the configuration is used."""

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""What people call a stream, a link, a model or an agent: letters, digits, - and _; no dot, so `--set` paths work."""
Words = Annotated[tuple[str, ...], Field(strict=False)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""64 lower-case hex digits."""


def missing_files(block: Block, at: Steps = ()) -> Iterator[tuple[Steps, str]]:
    """Every path marked `InputFile` or `InputFolder` in the tree that is none, with words."""
    for name, info in type(block).model_fields.items():
        value = getattr(block, name)
        if isinstance(value, Path):
            mark = _mark(info)
            if mark is not None and not mark.is_there(value):
                yield (*at, name), f"no such {mark.kind}: {value}"
        else:
            yield from _missing_below(value, (*at, name))


def _mark(info: FieldInfo) -> MustExist | None:
    # `InputFile | None` carries its mark inside the union, `InputFile` beside the type.
    inside = (mark for option in get_args(info.annotation) for mark in getattr(option, "__metadata__", ()))
    return next((mark for mark in (*info.metadata, *inside) if isinstance(mark, MustExist)), None)


def _missing_below(value: object, at: Steps) -> Iterator[tuple[Steps, str]]:
    if isinstance(value, Block):
        yield from missing_files(value, at)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _missing_below(item, (*at, key))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _missing_below(item, (*at, index))
