"""Payloads that are not whole yet, as files that grow: an upload goes on where it was, whoever was restarted meanwhile.

A part is named by its content and its agent, so nobody spoils another's upload. It only grows at its end: a piece that
came twice changes nothing, one that leaves a hole is not written. Whether a whole part is what it said is told by its
content hash alone. All parts together are bounded: a new one displaces those nobody has added to for longest.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from cloud.store.payloads.folder import content_hash
from pipelines.errors import Rejected, Retryable


class PartFolder:
    """`sha256`: 64 hex digits. Raises Retryable when the disk refuses for now."""

    def __init__(self, root: Path, *, max_bytes: int) -> None:
        """`root` is made when the first part comes, inside the payload folder, which has to be there then."""
        self.root = root
        self._max_bytes = max_bytes

    def length(self, agent: str, sha256: str) -> int:
        """Bytes that are here; 0 for a part that was never begun."""
        try:
            return self._path(agent, sha256).stat().st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise Retryable(f"{self.root} cannot be read: {error.strerror}") from error

    def write(self, agent: str, sha256: str, data: bytes, *, offset_bytes: int, size_bytes: int) -> int:
        """Add what `data` has beyond the present end; the length now. Rejected for bytes beyond `size_bytes`."""
        if offset_bytes + len(data) > size_bytes:
            raise Rejected(f"{offset_bytes} and {len(data)} bytes are more than the {size_bytes} announced")
        length = self.length(agent, sha256)
        known = length - offset_bytes
        if known < 0 or known >= len(data):
            return length
        try:
            if length == 0:
                self.root.mkdir(exist_ok=True)
                self._make_room(size_bytes)
            with self._path(agent, sha256).open("ab") as file:
                file.write(data[known:])
        except OSError as error:
            raise Retryable(f"{self.root} cannot write: {error.strerror}") from error
        return length + len(data) - known

    def whole(self, agent: str, sha256: str) -> bytes | None:
        """The content, if it is what its name says; else it is gone, and None."""
        try:
            data = self._path(agent, sha256).read_bytes()
        except OSError as error:
            raise Retryable(f"{self.root} cannot be read: {error.strerror}") from error
        if content_hash(data) == sha256:
            return data
        self.drop(agent, sha256)
        return None

    def drop(self, agent: str, sha256: str) -> None:
        """Gone, or gone already."""
        try:
            self._path(agent, sha256).unlink(missing_ok=True)
        except OSError as error:
            raise Retryable(f"{self.root} cannot remove: {error.strerror}") from error

    def clear_untouched_since(self, unix_s: float) -> int:
        """Remove parts nobody added to since then; how many."""
        old = [entry for entry in self._entries() if entry.stat().st_mtime < unix_s]
        for entry in old:
            Path(entry.path).unlink(missing_ok=True)
        return len(old)

    def _make_room(self, size_bytes: int) -> None:
        found = sorted((e.stat().st_mtime, e.stat().st_size, e.path) for e in self._entries())
        over_bytes = sum(size for _, size, _ in found) + size_bytes - self._max_bytes
        for _, size, path in found:
            if over_bytes <= 0:
                return
            Path(path).unlink(missing_ok=True)
            over_bytes -= size

    def _path(self, agent: str, sha256: str) -> Path:
        return self.root / f"{sha256}.{agent}"

    def _entries(self) -> Iterator["os.DirEntry[str]"]:
        try:
            with os.scandir(self.root) as found:
                yield from found
        except FileNotFoundError:
            return
