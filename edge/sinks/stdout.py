"""Answers as JSON lines on standard output, for a pipe into the next program."""

import json
import sys
from typing import Any, Self, TextIO

from edge.sinks.place import Place
from edge.telemetry.frame_lines import answer_line
from pipelines.result import Answer


class StdoutSink:
    """The same lines as the JSONL sink. `stream` is standard output unless given; it is never closed."""

    def __init__(self, *, stream: TextIO | None = None) -> None:
        self._stream = stream

    @classmethod
    def from_config(cls, config: Any, place: Place) -> Self:
        del config, place  # this kind has no settings
        return cls()

    def write(self, answer: Answer) -> None:
        self._out.write(json.dumps(answer_line(answer), separators=(",", ":")) + "\n")

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        self._out.flush()

    def counts(self) -> dict[str, int]:
        return {}

    @property
    def _out(self) -> TextIO:
        return self._stream or sys.stdout
