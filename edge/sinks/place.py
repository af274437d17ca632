"""Where a sink works: what it must know of its agent beside its own settings."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`name` is the sink's own, unlike every other's of the agent; `folder` is for what it keeps over restarts."""

    name: str
    agent: str
    run: bytes
    folder: Path
