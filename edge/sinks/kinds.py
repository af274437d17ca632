"""The kinds of sink, and what a configuration may say about each.

Naming a kind imports none of its code: `SINKS.build` does.
"""

from typing import Annotated, Literal

from pydantic import Field

from pipelines.blocks import Block, FilePath
from pipelines.registry import Family, Kind


class JsonlSinkConfig(Block):
    """Answers as JSON lines, appended to a file."""

    kind: Literal["jsonl"]
    path: FilePath


class StdoutSinkConfig(Block):
    """Answers as JSON lines on standard output."""

    kind: Literal["stdout"]


SinkConfig = Annotated[JsonlSinkConfig | StdoutSinkConfig, Field(discriminator="kind")]

SINKS = Family(
    "sink",
    Kind(
        name="jsonl",
        config=JsonlSinkConfig,
        target="edge.sinks.jsonl:JsonlSink",
        words="answers as JSON lines, appended to a file",
    ),
    Kind(
        name="stdout",
        config=StdoutSinkConfig,
        target="edge.sinks.stdout:StdoutSink",
        words="answers as JSON lines on standard output",
    ),
)
