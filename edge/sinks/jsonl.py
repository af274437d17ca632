"""Answers as JSON lines in a file, one per answer, in the order they were given."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from edge.sinks.line_file import LineFile
from edge.sinks.place import Place
from edge.sinks.rotation import Rotation
from edge.telemetry.frame_lines import answer_line
from pipelines.result import Answer
from pipelines.runtime import monotonic_us


class JsonlSink:
    """Adds to the file at `path`; its folder is made if it is missing. Raises ConfigError if it cannot.

    `rotated` counts files that were full, `reopened` those that somebody else moved or removed.
    """

    def __init__(
        self,
        *,
        path: Path,
        rotation: Rotation | None = None,
        clock_us: Callable[[], int] = monotonic_us,
    ) -> None:
        self._file = LineFile(path, clock_us=clock_us, rotation=rotation)

    @classmethod
    def from_config(cls, config: Any, place: Place) -> Self:
        del place  # its path says where it is
        path = Path(config.path)
        if config.rotate is None:
            return cls(path=path)
        return cls(
            path=path,
            rotation=Rotation(
                path,
                max_bytes=config.rotate.max_bytes,
                max_age_us=config.rotate.max_age,
                keep=config.rotate.keep,
                compress=config.rotate.compress == "zstd",
            ),
        )

    def write(self, answer: Answer) -> None:
        self._file.write(json.dumps(answer_line(answer), separators=(",", ":")).encode())

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def counts(self) -> dict[str, int]:
        return {"rotated": self._file.rotated, "reopened": self._file.reopened}
