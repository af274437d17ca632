"""A file gets new content or keeps the old one, whole, whatever happens in between: draft, fsync, rename, fsync of the folder.

Readers see the old content or the new one, never a part. What a killed writer leaves is a draft, which the next one of
that name overwrites.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP}
"""What a file system says that knows no fsync of a folder: there is nothing more to be done there."""


def write_whole(
    path: Path,
    data: bytes,
    *,
    draft: Path | None = None,
    like: os.stat_result | None = None,
    durable: bool = True,
) -> None:
    """Put `data` at `path`. Raises OSError; the draft is gone then.

    `draft`: where it is written first, on the same file system; left out: beside `path`, under a hidden name of this
    process. `like`: whose rights and owner it gets; left out: those of any new file. `durable`: once this returns a power
    cut takes neither content nor name; without, it may take both and leave an empty file.
    """
    draft = draft or path.with_name(f".{path.name}.{os.getpid()}")
    mode = 0o666 if like is None else 0o600  # nobody reads a draft who may not read the file
    try:
        with os.fdopen(
            os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode), "wb"
        ) as file:
            file.write(data)
            file.flush()
            if like is not None:
                os.fchmod(file.fileno(), like.st_mode & 0o7777)
                with suppress(PermissionError):  # only root may give a file away
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
            if durable:
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """So that the names in `folder` survive a power cut as their content does. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)
