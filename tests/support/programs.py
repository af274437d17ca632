"""Outside programs that tests start, where Debian puts them."""

import os
import shutil
import sys
from pathlib import Path


def program(name: str) -> str | None:
    """The path of a program, also of those Debian keeps out of PATH and those that came with a package of this
    Python."""
    places = [
        str(Path(sys.executable).parent),
        *os.get_exec_path(),
        *map(str, Path("/usr/lib/postgresql").glob("*/bin")),
    ]
    return shutil.which(name, path=os.pathsep.join(places))
