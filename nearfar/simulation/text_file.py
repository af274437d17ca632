"""The text of a file somebody names for a simulation: a regular file of a bounded size, or a DataFileError in words.

A pipe or a device may never end, and reading takes a hundred times the memory of the text.
"""

import os
import stat
from pathlib import Path

from pipelines.errors import DataFileError, Problem

MOST_BYTES = 16 << 20


def read_text(path: Path, *, what: str) -> str:
    """`what` it would be, like `trace`. Opened without waiting, so that a pipe nobody writes to does not keep us."""

    def wrong(words: str) -> DataFileError:
        return DataFileError(Problem(words, file=str(path)))

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise wrong(f"is not a regular file; a {what} is one")
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise wrong(f"there is no such {what}") from None
    except OSError as error:
        raise wrong(f"cannot be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise wrong(
            f"is larger than {MOST_BYTES >> 20} MiB, which no {what} is; cut out the part that matters"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise wrong(f"cannot be read as text: {error.reason} at byte {error.start}") from error
