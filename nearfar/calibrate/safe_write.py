"""A file of the user's gets new content and stays what it was: behind its link, with its rights and its owner."""

import os
from pathlib import Path

from pipelines.whole_file import write_whole


def replace_content(path: Path, data: bytes) -> None:
    """The file at `path` (behind links, if it is one) with its rights and owner kept. Raises OSError, and then the
    file is as it was."""
    target = Path(os.path.realpath(path))
    write_whole(target, data, like=target.stat())


def may_replace(path: Path) -> bool:
    """Whether `replace_content` will be allowed to make its draft beside the file."""
    return os.access(Path(os.path.realpath(path)).parent, os.W_OK | os.X_OK)
