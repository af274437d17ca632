"""What a check found: one line for a person, with what to do where something has to be done."""

from dataclasses import dataclass
from enum import StrEnum

from pipelines.errors import NearfarError


class Level(StrEnum):
    """`skipped`: not checked, because what it needs was not there."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`layer` is one word, or `word NAME`; `advice` is what to do, empty where nothing is."""

    layer: str
    level: Level
    words: str
    advice: str = ""


def ok(layer: str, *, words: str) -> Finding:
    return Finding(layer=layer, level=Level.OK, words=words)


def warn(layer: str, *, words: str, advice: str = "") -> Finding:
    return Finding(layer=layer, level=Level.WARN, words=words, advice=advice)


def fail(layer: str, *, words: str, advice: str) -> Finding:
    return Finding(layer=layer, level=Level.FAIL, words=words, advice=advice)


def skipped(layer: str, *, why: str) -> Finding:
    return Finding(layer=layer, level=Level.SKIPPED, words=f"not checked because {why}")


def words_of(error: Exception) -> str:
    """An error as one line a person can read."""
    if isinstance(error, NearfarError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}"
