"""One connection to a camera on a thread of its own, which is left behind when it hangs in C code.

The source is opened, read and closed by this thread only: no other may touch it, whatever it hangs in, except to
tell it that nobody wants its pictures.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from edge.capture.base import LiveSource, Shape, Skipping
from pipelines.errors import NearfarError
from pipelines.frame import Picture

log = logging.getLogger(__name__)

ENDED = "the connection ended: the camera closed it, or sent what is no video"


class Owner(Protocol):
    """Told what happens, from the connection's thread; it knows which of its connections still counts."""

    def opened(self, connection: "Connection", shape: Shape) -> None: ...
    def given(self, connection: "Connection", picture: Picture, pts_us: int | None) -> None: ...
    def lost(self, connection: "Connection", reason: str) -> None: ...


class Connection(threading.Thread):
    """From `start` until the camera ends it, an error, or `let_go`; `lost` is the last thing its owner hears, and it
    hears it whatever happened."""

    def __init__(self, *, number: int, name: str, connect: Callable[[], LiveSource], owner: Owner) -> None:
        super().__init__(name=name, daemon=True)
        self.number = number
        self._connect = connect
        self._owner = owner
        self._wanted = True
        self._source: LiveSource | None = None
        self._skipped_before = 0

    def let_go(self) -> None:
        """Nobody wants its pictures any more; it ends with the read it is in, or sooner if the source can."""
        self._wanted = False
        source = self._source
        if source is not None:
            source.let_go()

    @property
    def skipped(self) -> int:
        """How much of what came since the last picture was none; from any thread."""
        source = self._source
        return source.skipped - self._skipped_before if isinstance(source, Skipping) else 0

    def run(self) -> None:
        reason = ENDED
        try:
            try:
                self._hold()
            finally:
                if self._source is not None:
                    self._source.close()
        except NearfarError as broken:
            reason = str(broken)
        except Exception as broken:
            log.exception("%s: the source failed", self.name)
            reason = f"{type(broken).__name__}: {broken}"
        finally:
            self._owner.lost(self, reason)

    def _hold(self) -> None:
        source = self._source = self._connect()
        if not self._wanted:
            return
        self._owner.opened(self, source.open())
        while self._wanted and (picture := source.read()) is not None:
            self._skipped_before += self.skipped
            self._owner.given(self, picture, source.pts_us)
