"""Answers as JSON lines in a file, one per answer, in the order they were given."""

from pathlib import Path
from typing import Any, Self

from edge.frame_lines import answer_line
from edge.json_lines import JsonLines
from pipelines.result import Answer


class JsonlSink:
    """Adds to the file at `path`; its folder is made if it is missing. Raises ConfigError if it cannot."""

    def __init__(self, *, path: Path) -> None:
        self._lines = JsonLines(path)

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(path=Path(config.path))

    def write(self, answer: Answer) -> None:
        self._lines.write(answer_line(answer))

    def flush(self) -> None:
        self._lines.flush()

    def close(self) -> None:
        self._lines.close()

    def counts(self) -> dict[str, int]:
        return {}
