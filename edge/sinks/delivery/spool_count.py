"""How many parcels wait in a queue file, written beside it as `NAME.count`, where damage of the file cannot reach.

Replaced as a whole: at the end, whenever the number has doubled, and else at most every EVERY_US. So it is exact after an
end in order, and after a kill what was true at most so long before the last change. What a disk does not take now it gets
with a later change.
"""

from contextlib import suppress
from pathlib import Path

from pipelines.whole_file import write_whole

EVERY_US = 5_000_000
BLOCK_BYTES = 4096
"""What a disk writes for it at least."""


class SpoolCount:
    """Used under the lock of the queue's owner; never raises."""

    def __init__(self, queue: Path) -> None:
        self.path = queue.with_name(queue.name + ".count")
        self._kept: int | None = None
        self._tried_us = 0

    def read(self) -> int | None:
        """What was written last, perhaps by an earlier process; None when nobody knows."""
        with suppress(OSError, ValueError):
            return max(0, int(self.path.read_text("ascii")))
        return None

    def keep(self, rows: int, *, uptime_us: int, at_once: bool = False) -> int:
        """`rows` parcels wait now, at `uptime_us` of the queue. How many bytes that wrote."""
        if rows == self._kept:
            return 0
        doubled = self._kept is not None and rows >= 2 * self._kept
        if not (at_once or doubled or uptime_us - self._tried_us >= EVERY_US):
            return 0
        self._tried_us = uptime_us
        draft = self.path.with_name(self.path.name + ".new")
        try:  # fsync every few seconds would cost more than a count that a power cut takes
            write_whole(self.path, f"{rows}\n".encode("ascii"), draft=draft, durable=False)
        except OSError:
            return 0
        self._kept = rows
        return BLOCK_BYTES
