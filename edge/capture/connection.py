"""One connection to a camera on a thread of its own, which is left behind when it hangs in C code.

The source is opened, read and closed by this thread only: no other may touch it, whatever it hangs in.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from edge.capture.base import LiveSource, Shape
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
    """From `start` until the camera ends it, an error, or `let_go`; `lost` is the last thing its owner hears."""

    def __init__(self, *, name: str, connect: Callable[[], LiveSource], owner: Owner) -> None:
        super().__init__(name=name, daemon=True)
        self._connect = connect
        self._owner = owner
        self._wanted = True

    def let_go(self) -> None:
        """Nobody wants its pictures any more; it ends with the read it is in."""
        self._wanted = False

    def run(self) -> None:
        reason = ENDED
        source: LiveSource | None = None
        try:
            source = self._connect()
            self._owner.opened(self, source.open())
            while self._wanted and (picture := source.read()) is not None:
                self._owner.given(self, picture, source.pts_us)
        except NearfarError as broken:
            reason = str(broken)
        except Exception as broken:
            log.exception("%s: the source failed", self.name)
            reason = f"{type(broken).__name__}: {broken}"
        finally:
            if source is not None:
                source.close()
            self._owner.lost(self, reason)
