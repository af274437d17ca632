"""What becomes of a file that is full: it gets a number, the oldest beyond `keep` go, the others may be compressed.

`answers.jsonl` becomes `answers-000001.jsonl`, later `answers-000001.jsonl.zst`; numbers rise and are not used twice while a
file of them is there, so the order never depends on a clock. Each name is complete from the moment it appears.
"""

import logging
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import zstandard

log = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 20
_LEVEL = 3
_END_WITHIN_S = 0.3
_ZST = ".zst"
_PART = ".zst.part"


class Rotation:
    """Of the file at `path`; nothing is touched before `start`. Used by one thread; compressing happens on another, one
    file at a time."""

    def __init__(
        self, path: Path, *, max_bytes: int | None, max_age_us: int | None, keep: int, compress: bool
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._max_age_us = max_age_us
        self._keep = keep
        self._compress = compress
        self._name = re.compile(re.escape(path.stem) + r"-(\d{6,})" + re.escape(path.suffix) + r"(\.zst)?")
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._busy = self._more = False
        self._thread: threading.Thread | None = None
        self.rotated = 0
        self._last_error = ""

    def start(self) -> None:
        """The file is there: take up what an earlier run left, and remove what it had half compressed."""
        for part in self._parts():
            self._guarded(part.unlink)
        self.tidy()

    def due(self, *, size_bytes: int, more_bytes: int, age_us: int) -> bool:
        """Whether a file of that size and age is to end before `more_bytes` are added; an empty one never is."""
        if size_bytes == 0:
            return False
        if self._max_bytes is not None and size_bytes + more_bytes > self._max_bytes:
            return True
        return self._max_age_us is not None and age_us >= self._max_age_us

    def rotate(self) -> bool:
        """Move the file away; False, said once, when the disk does not let us: the file then goes on."""
        number = 1 + max((n for n, _ in self._numbered()), default=0)
        target = self._path.with_name(f"{self._path.stem}-{number:06}{self._path.suffix}")
        if not self._guarded(lambda: self._path.rename(target)):
            return False
        self.rotated += 1
        self._last_error = ""
        self.tidy()
        return True

    def tidy(self) -> None:
        """Remove what is beyond `keep`; compress what is not, also what an earlier run left."""
        self._prune()
        if not self._compress:
            return
        with self._lock:
            self._more = True
            if self._busy or not any(path.suffix != ".zst" for _, path in self._numbered()):
                return
            self._busy = True
        thread = threading.Thread(target=self._compress_all, name=f"compress-{self._path.name}", daemon=True)
        if self._guarded(thread.start):
            self._thread = thread
        else:
            self._busy = False

    def close(self) -> None:
        """A file that is being compressed stays as it was; the next start takes it up again."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(_END_WITHIN_S)

    def _numbered(self) -> list[tuple[int, Path]]:
        """The files of earlier rotations, oldest first."""
        names = [(self._name.fullmatch(path.name), path) for path in self._beside()]
        return sorted((int(match[1]), path) for match, path in names if match is not None)

    def _parts(self) -> list[Path]:
        """What was being compressed when a process was killed."""
        whole = ((path, path.name.removesuffix(_PART)) for path in self._beside())
        return [path for path, name in whole if name != path.name and self._name.fullmatch(name)]

    def _beside(self) -> list[Path]:
        try:
            return list(self._path.parent.iterdir())
        except OSError:
            return []

    def _prune(self) -> None:
        found = self._numbered()
        kept = sorted({number for number, _ in found})[-self._keep :]
        for number, path in found:
            if number not in kept:
                self._guarded(path.unlink)

    def _compress_all(self) -> None:
        try:
            while self._is_more():
                self._compress_each()
        except BaseException:
            self._busy = False
            raise

    def _is_more(self) -> bool:
        """Whether another look is needed; whoever is told that none is has ended."""
        with self._lock:
            self._busy = self._more and not self._ending.is_set()
            self._more = False
            return self._busy

    def _compress_each(self) -> None:
        for _, path in self._numbered():
            if path.suffix != ".zst":
                self._guarded(partial(self._compress_one, path))
        self._prune()  # one may have been compressed while it was removed

    def _compress_one(self, path: Path) -> None:
        part = path.with_name(path.name + _PART)
        try:
            packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
            with path.open("rb") as source, part.open("wb") as file, packer.stream_writer(file) as out:
                while chunk := source.read(_CHUNK_BYTES):
                    if self._ending.is_set():
                        return
                    out.write(chunk)
            part.rename(path.with_name(path.name + _ZST))
            path.unlink()
        finally:
            part.unlink(missing_ok=True)

    def _guarded(self, step: Callable[[], object]) -> bool:
        """Trouble with old files, of whatever kind, is said once and never costs a line."""
        try:
            with suppress(FileNotFoundError):
                step()
        except Exception as error:  # noqa: BLE001 - the disk, the compressor, memory, threads: the next line goes on
            text = (
                f"{error.strerror}: {error.filename}"
                if isinstance(error, OSError)
                else f"{type(error).__name__}: {error}"
            )
            if text != self._last_error:
                self._last_error = text
                log.warning("rotation of %s: %s", self._path, text)
            return False
        return True
