"""Files a command writes beside what it says: looked at before the work begins, and a clear word when one cannot be."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError

STDOUT = "-"


def check_files(*paths: Path | None) -> None:
    """Raises ConfigError for one whose folder is not there, or which is a folder itself."""
    for path in paths:
        if path is None or str(path) == STDOUT:
            continue
        if not path.absolute().parent.is_dir():
            raise ConfigError(f"cannot write {path}: there is no such folder; make it, or name another")
        if path.is_dir():
            raise ConfigError(f"cannot write {path}: it is a folder; name a file in it")


def check_plot(path: Path | None) -> None:
    """Raises ConfigError when a page with plots is wanted and cannot be made."""
    if path is not None and find_spec("plotly") is None:
        raise ConfigError("--plot needs plotly: pip install 'nearfar[report]'")
    check_files(path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever the system refuses inside is a ConfigError about that file or folder."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {error.filename or path}: {error.strerror}") from error


def write_json(document: Any, to: str) -> None:
    """Indented, to a file or, for `-`, to stdout."""
    text = json.dumps(document, indent=1) + "\n"
    if to == STDOUT:
        sys.stdout.write(text)
        return
    with writing(Path(to)):
        Path(to).write_text(text, encoding="utf-8")
