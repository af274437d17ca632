"""Outside programs that tests start, where Debian puts them."""

import os
import shutil
from pathlib import Path


def program(name: str) -> str | None:
    """The path of a program, also of those Debian keeps out of PATH."""
    places = [*os.get_exec_path(), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    return shutil.which(name, path=os.pathsep.join(places))
