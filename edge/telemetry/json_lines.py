"""A file of JSON lines that is only ever added to; a line cut off by an earlier crash stays a line of its own."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pipelines.errors import ConfigError


class JsonLines:
    """Used by one thread. Lines reach the kernel at `flush`. Raises ConfigError when the file cannot be opened."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
            if _ends_inside_a_line(path):
                self._file.write(b"\n")
        except OSError as error:
            raise ConfigError(
                f"cannot write to {path}: {error.strerror}; choose another directory with --run-dir"
            ) from error

    def write(self, line: Mapping[str, object]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _ends_inside_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
