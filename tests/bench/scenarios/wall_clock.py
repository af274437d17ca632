"""The wall clock of one process, set forward and back while it runs: only that process believes it.

A preloaded library answers for CLOCK_REALTIME; the machine's clock stays, for others live on it. Harsher than a real
step: a time-out that somebody counts by the wall clock meets a kernel that counts by another.
"""

import mmap
import os
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


class WallClock:
    """`environment` is for the process; gcc builds the library into the cache folder on first use."""

    def __init__(self, folder: Path) -> None:
        library = (
            Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "nearfar-bench/wall_clock.so"
        )
        if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
            library.parent.mkdir(parents=True, exist_ok=True)
            draft = library.with_suffix(f".{os.getpid()}")
            command = ["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(draft), str(SOURCE)]
            subprocess.run(command, check=True)
            draft.rename(library)
        path = folder / "wall-offset"
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._offset = mmap.mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": str(library), "WALL_OFFSET_FILE": str(path)}

    def set_to(self, offset_s: float) -> None:
        """Off by `offset_s` from now on, at once."""
        self._offset[:8] = struct.pack("=q", round(offset_s * 1e9))

    def close(self) -> None:
        self._offset.close()
