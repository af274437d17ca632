"""The kinds of sink, and what a configuration may say about each.

Naming a kind imports none of its code: `SINKS.build` does.
"""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from pipelines.blocks import Block, FilePath
from pipelines.registry import Family, Kind

SOCKET_PATH_BYTES = 107
"""sun_path of unix(7) has 108 bytes, the last one a zero."""


class JsonlSinkConfig(Block):
    """Answers as JSON lines, appended to a file."""

    kind: Literal["jsonl"]
    path: FilePath


class StdoutSinkConfig(Block):
    """Answers as JSON lines on standard output."""

    kind: Literal["stdout"]


class SocketSinkConfig(Block):
    """Answers as JSON lines to every program that connects to a Unix socket."""

    kind: Literal["socket"]
    path: FilePath = Field(description="of the socket; made at start, removed at the end")
    mode: str = Field("0660", description="who may connect: permissions in octal, in quotes")

    @field_validator("path")
    @classmethod
    def _fits_an_address(cls, path: Path) -> Path:
        size = len(os.fsencode(path))
        if size > SOCKET_PATH_BYTES:
            raise ValueError(
                f"is {size} bytes long and a Unix socket's path may have {SOCKET_PATH_BYTES}; "
                "choose a shorter one, such as /run/nearfar/answers.sock"
            )
        return path

    @field_validator("mode", mode="before")
    @classmethod
    def _is_octal(cls, mode: object) -> object:
        # YAML reads 0660 and 660 as two different numbers, neither of which looks like what was written.
        if not isinstance(mode, str):
            raise ValueError('must be in quotes, such as "0660"')  # noqa: TRY004 - pydantic wants ValueError
        digits = mode.removeprefix("0")
        if len(digits) != 3 or not set(digits) <= set("01234567"):
            raise ValueError('must be three octal digits, such as "0660"')
        if digits[0] not in "67":
            raise ValueError('must let the owner read and write, such as "0660"')
        return mode


SinkConfig = Annotated[JsonlSinkConfig | StdoutSinkConfig | SocketSinkConfig, Field(discriminator="kind")]

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
    Kind(
        name="socket",
        config=SocketSinkConfig,
        target="edge.sinks.unix_socket:UnixSocketSink",
        words="answers as JSON lines to every program that connects to a Unix socket",
    ),
)
