"""Encoded pictures as files named by their content: `ab/abcdef…`, each stored once however many frames share it.

A file appears whole or not at all (written beside, synced, renamed), and is on the disk once `put` returned. What is
read is compared with its name: a damaged file is never handed out as a picture. Several workers may share a folder.
"""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from pipelines.errors import ConfigError, Rejected, Retryable
from pipelines.whole_file import write_whole

_BEGUN = "tmp"
SHARDS = tuple(f"{number:02x}" for number in range(256))


def content_hash(data: bytes) -> str:
    """SHA-256 as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def folder_of(path: Path, store_id: str) -> Path:
    """The part of `store.payloads.path` that is one store's: two stores in one place never touch each other's files."""
    return path / store_id[:16]


class PayloadFolder:
    """Raises Retryable when the disk refuses for now. Safe for several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def make(self) -> None:
        """ConfigError when it cannot be made."""
        try:
            (self.root / _BEGUN).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"store.payloads.path: cannot make {self.root}: {error.strerror}; "
                "let the worker's user write there, or choose another folder"
            ) from error

    def need(self) -> None:
        """Retryable unless it is there: what is not mounted is not taken for empty."""
        if not self.root.is_dir():
            raise Retryable(f"the payload folder {self.root} is not there; is its file system mounted?")

    def path(self, sha256: str) -> Path:
        return self.root / sha256[:2] / sha256

    def size(self, sha256: str) -> int | None:
        """Bytes of the file, None when there is none."""
        path = self.path(sha256)
        try:
            return path.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Retryable(f"the payload folder {self.root} cannot be read: {error.strerror}") from error

    def put(self, data: bytes) -> str:
        """Its content hash, once it is on the disk. A damaged file of that name is replaced."""
        self.need()
        sha256 = content_hash(data)
        path = self.path(sha256)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.utime(path)  # young again: nobody takes it for a leftover
                if _is(path, data):
                    return sha256
            (self.root / _BEGUN).mkdir(exist_ok=True)
            begun = self.root / _BEGUN / f"{sha256}.{secrets.token_hex(4)}"
            path.parent.mkdir(exist_ok=True)  # not its parents: they may have been unmounted
            write_whole(path, data, draft=begun)
        except OSError as error:
            raise Retryable(f"the payload folder {self.root} cannot write: {error.strerror}") from error
        return sha256

    def read(self, sha256: str) -> bytes:
        """Rejected, with words, when the file is missing or is not what its name says."""
        path = self.path(sha256)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise Rejected(f"{path} is missing") from error
        except OSError as error:
            raise Rejected(f"{path} cannot be read: {error.strerror}") from error
        if content_hash(data) != sha256:
            raise Rejected(f"{path} is damaged: its content is not what its name says")
        return data

    def drop(self, sha256: str) -> None:
        """Gone, or gone already."""
        try:
            self.path(sha256).unlink(missing_ok=True)
        except OSError as error:
            raise Retryable(f"{self.path(sha256)} cannot be removed: {error.strerror}") from error

    def shard(self, name: str) -> dict[str, float]:
        """Content hash → seconds since 1970 it was last put, for one of `SHARDS`."""
        return dict(_ages(self.root / name))

    def is_from(self, sha256: str, since_unix_s: float, before_unix_s: float) -> bool:
        """Whether it was last put in that time; False if it is gone."""
        try:
            return since_unix_s <= self.path(sha256).stat().st_mtime < before_unix_s
        except FileNotFoundError:
            return False

    def drop_old(self, sha256: str, since_unix_s: float, before_unix_s: float) -> bool:
        """`drop` if it is still from then: somebody may have put it again."""
        old = self.is_from(sha256, since_unix_s, before_unix_s)
        if old:
            self.drop(sha256)
        return old

    def clear_begun(self, before_unix_s: float) -> None:
        """Remove what a killed worker had begun to write and never finished."""
        for name, begun_s in _ages(self.root / _BEGUN):
            if begun_s < before_unix_s:
                (self.root / _BEGUN / name).unlink(missing_ok=True)


def _ages(folder: Path) -> Iterator[tuple[str, float]]:
    """(name, seconds since 1970 it was last written) of what is in it; another worker may remove some meanwhile."""
    try:
        with os.scandir(folder) as found:
            for entry in found:
                with contextlib.suppress(FileNotFoundError):
                    yield entry.name, entry.stat().st_mtime
    except FileNotFoundError:
        return


def _is(path: Path, data: bytes) -> bool:
    """Whether the file is sound; one that cannot be read is not."""
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except FileNotFoundError:
        raise
    except OSError:
        return False
