"""What a detector is: one picture in, boxes out, cancellable from another thread."""

import threading
from collections.abc import Callable
from typing import Protocol

from pipelines.errors import NearfarError
from pipelines.frame import Picture
from pipelines.result import Detections


class Cancelled(NearfarError):
    """The run was cancelled before it finished; there is no result, and that is no failure."""


class CancelToken:
    """Asks one run to stop. `cancel` may be called from any thread, before, during or after the run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when cancelled; at once if that has happened."""
        with self._lock:
            if not self._cancelled:
                self._callbacks.append(callback)
                return
        callback()


class Detector(Protocol):
    """One model ready to run. One run at a time; `detect` blocks and releases the GIL while it computes."""

    @property
    def name(self) -> str:
        """Kind and input, for people: `centerface@320x224`."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """Index = class id."""
        ...

    @property
    def input_size(self) -> tuple[int, int]:
        """(width_px, height_px) the model runs at."""
        ...

    @property
    def sha256(self) -> str:
        """64 hex digits of the model file, or of the configuration where there is no file."""
        ...

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        """Boxes in pixels of `picture`, best score first.

        Raises Cancelled after `cancel`, Rejected for a picture it cannot take, Fatal when the engine broke.
        """
        ...
