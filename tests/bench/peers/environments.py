"""A virtual environment for each peer: their packages need other versions than ours, and than each other.

They lie in `.peers` under the root, one for each file of requirements, and are made by `install` only. One that was
made from other requirements than those of today counts as not installed.
"""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[3]
REQUIREMENTS = Path(__file__).parent / "requirements"
_MADE_FROM = "made-from.txt"


class Environments:
    """Those under `folder`."""

    def __init__(self, folder: Path = ROOT / ".peers") -> None:
        self._folder = folder

    def python(self, name: str | None) -> Path | None:
        """The interpreter to run a peer with, our own for None; None when the environment is not installed."""
        if name is None:
            return Path(sys.executable)
        home = self._folder / name
        try:
            made_from = (home / _MADE_FROM).read_text()
        except FileNotFoundError:
            return None
        return home / "bin" / "python" if made_from == _requirements(name) else None

    def how(self, name: str) -> str:
        """What to do so that it is there."""
        packages = " ".join(f"'{line}'" for line in _requirements(name).split())
        return f"not installed: make peers (pip install {packages})"

    def install(self, name: str) -> None:
        """Make it, anew if need be. CalledProcessError when pip cannot."""
        home = self._folder / name
        venv.create(home, clear=True, with_pip=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(REQUIREMENTS / f"{name}.txt")], check=True)
        (home / _MADE_FROM).write_text(_requirements(name))

    def versions(self, name: str) -> dict[str, str]:
        """The installed version of each package that its requirements name."""
        found = {}
        for line in _requirements(name).split():
            package = line.partition(">=")[0].partition("[")[0]
            folders = (self._folder / name / "lib").glob(
                f"python*/site-packages/{package.replace('-', '_')}-*.dist-info"
            )
            for folder in folders:
                found[package] = folder.name.removesuffix(".dist-info").rpartition("-")[2]
        return found


def _requirements(name: str) -> str:
    return (REQUIREMENTS / f"{name}.txt").read_text()
