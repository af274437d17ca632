"""How paths are shown to people: without the detours a file took to name them."""

import os
from pathlib import Path


def shown(path: Path | str) -> str:
    """`recipes/../../.nearfar/door` as `../.nearfar/door`. For words only: a link on the way may lead elsewhere."""
    return os.path.normpath(path)
