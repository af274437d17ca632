"""A file gets new content or keeps the old one, whole, whatever happens in between: temp, fsync, rename, fsync."""

import contextlib
import os
import tempfile
from pathlib import Path


def replace_content(path: Path, data: bytes) -> None:
    """The file at `path` (behind links, if it is one) with its rights and owner kept. Raises OSError, and then the
    file is as it was."""
    target = Path(os.path.realpath(path))
    before = target.stat()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as draft:
            draft.write(data)
            draft.flush()
            os.fchmod(draft.fileno(), before.st_mode & 0o7777)
            with contextlib.suppress(PermissionError):  # only root may give a file away
                os.fchown(draft.fileno(), before.st_uid, before.st_gid)
            os.fsync(draft.fileno())
        os.replace(name, target)  # noqa: PTH105 - `name` is a plain string here
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def may_replace(path: Path) -> bool:
    """Whether `replace_content` will be allowed to make its draft beside the file."""
    return os.access(Path(os.path.realpath(path)).parent, os.W_OK | os.X_OK)
