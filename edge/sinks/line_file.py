"""A file that lines are added to for years: it may be rotated by us, moved or removed by others, and the disk may fill up.

Lines reach the kernel at `flush`, all of them or none: a write that does not fit is taken back, so no line is ever torn. A
line cut off by an earlier crash stays a line of its own. A file that was moved or removed meanwhile is made anew.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from edge.sinks.rotation import Rotation
from pipelines.errors import ConfigError


class LineFile:
    """Used by one thread. Raises ConfigError when it cannot be opened at first, OSError from `flush` later."""

    def __init__(self, path: Path, *, clock_us: Callable[[], int], rotation: Rotation | None = None) -> None:
        self._path = path
        self._clock_us = clock_us
        self._rotation = rotation
        self._waiting = bytearray()
        self._fd: int | None = None
        self._begun_us = clock_us()
        self.reopened = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise ConfigError(
                f"cannot write to {path}: {error.strerror}; let the agent's user write there, or choose another path"
            ) from error
        if rotation is not None:
            rotation.start()

    @property
    def rotated(self) -> int:
        return 0 if self._rotation is None else self._rotation.rotated

    def write(self, line: bytes) -> None:
        """`line` has no line feed."""
        self._waiting += line + b"\n"

    def flush(self) -> None:
        """Write what waits. OSError when the disk does not take all of it: none of it is then in the file, and none of
        it is tried again."""
        if not self._waiting:
            return
        data, self._waiting = self._waiting, bytearray()
        fd = self._current()
        size_bytes = os.fstat(fd).st_size
        age_us = self._clock_us() - self._begun_us
        full = self._rotation is not None and self._rotation.due(
            size_bytes=size_bytes, more_bytes=len(data), age_us=age_us
        )
        if full and self._rotation is not None and self._rotation.rotate():
            fd, size_bytes = self._reopen(), 0
        if size_bytes == 0:
            self._begun_us = self._clock_us()
        self._write_all(fd, data, size_bytes)

    def close(self) -> None:
        """Again: nothing."""
        try:
            self.flush()
        finally:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
            if self._rotation is not None:
                self._rotation.close()

    def _write_all(self, fd: int, data: bytearray, size_bytes: int) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(fd, left) :]
        except OSError:
            with suppress(OSError):  # a pipe or a device has no end to take back to
                os.ftruncate(fd, size_bytes)
            raise

    def _current(self) -> int:
        """The file at our path; opened anew when another is there by now, or none."""
        if self._fd is None:
            return self._open()
        try:
            there = self._path.stat()
        except OSError:
            found = None
        else:
            found = (there.st_dev, there.st_ino)
        ours = os.fstat(self._fd)
        if found != (ours.st_dev, ours.st_ino):
            self.reopened += 1
            return self._reopen()
        return self._fd

    def _reopen(self) -> int:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._open()

    def _open(self) -> int:
        self._fd = fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._begun_us = self._clock_us()
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode) and _ends_inside_a_line(self._path):
                os.write(fd, b"\n")
        except OSError:
            os.close(fd)
            self._fd = None
            raise
        return fd


def _ends_inside_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
