"""A slot holds at most one frame of one stream: the only place where live frames wait.

Latest wins: a frame that finds the slot taken displaces the one inside and hands it back to be counted.
No frame leaves a slot twice and none disappears in it.
"""

import threading
from collections.abc import Callable

from pipelines.frame import Frame

# How often a wait for room looks at its stop event; well under the 100 ms a reader may take to end.
_LOOK_EVERY_S = 0.02


class Slot:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._frame: Frame | None = None

    def put(self, frame: Frame) -> Frame | None:
        """Lay `frame` in the slot; returns the frame it displaced."""
        with self._changed:
            displaced, self._frame = self._frame, frame
            return displaced

    def wait_until_free(self, stop: threading.Event) -> bool:
        """Block until the slot is empty (True) or `stop` is set (False)."""
        with self._changed:
            while self._frame is not None and not stop.is_set():
                self._changed.wait(_LOOK_EVERY_S)
            return not stop.is_set()

    def take(self) -> Frame | None:
        """The frame, out of the slot; None when it is empty."""
        return self.take_when(lambda _: True)

    def take_when(self, accept: Callable[[Frame], bool]) -> Frame | None:
        """The frame, out of the slot, if `accept` wants it; it stays otherwise and may still be displaced.

        `accept` runs while the slot is held, so that the frame it judged is the frame it gets: it must return
        soon and must not touch this slot.
        """
        with self._changed:
            frame = self._frame
            if frame is None or not accept(frame):
                return None
            self._frame = None
            self._changed.notify_all()
            return frame

    def peek(self) -> Frame | None:
        """The frame, left in the slot."""
        with self._changed:
            return self._frame
