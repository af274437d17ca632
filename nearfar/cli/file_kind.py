"""Which of the two kinds of file one is, told by what it holds: a gateway's pipeline or a worker's file."""

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from pipelines.errors import ConfigError

_PIPELINE = ("streams", "near", "links", "scheduler", "sinks", "uplink", "outbox")
_WORKER = ("listen", "models")
_OTHERS = {
    "pipeline": ("worker", "a worker's file", "nearfar cloud", _WORKER),
    "worker": ("pipeline", "a gateway's pipeline", "nearfar edge", _PIPELINE),
}


def kind_of(keys: Collection[str]) -> Literal["pipeline", "worker", ""]:
    """Of a file with these `keys` at its top; empty when they do not say it."""
    if "streams" in keys:
        return "pipeline"
    if any(key in keys for key in _WORKER):
        return "worker"
    return "pipeline" if any(key in keys for key in _PIPELINE) else ""


def must_be(kind: Literal["pipeline", "worker"], file: Path) -> None:
    """ConfigError, with the command that wants it, when `file` is of the other kind."""
    from pipelines.document import Document  # noqa: PLC0415 - pydantic loads only when a file is read

    keys = Document.read(file).data
    other, words, run, marks = _OTHERS[kind]
    if kind_of(keys) == other:
        has = ", ".join(key for key in marks if key in keys)
        raise ConfigError(f"{file} is {words} (it has {has}); run: {run} {file}")
