"""What a detector is: one picture in, boxes out, cancellable from another thread."""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

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


@runtime_checkable
class BatchDetector(Protocol):
    """What a detector that runs several pictures at once has besides."""

    @property
    def max_batch(self) -> int:
        """Most pictures of one run; 1 = this one takes them one by one."""
        ...

    def detect_batch(self, pictures: Sequence[Picture]) -> list[Detections]:
        """For each of `pictures`, 1 to `max_batch` of any sizes, what `detect` gives for it alone.

        Raises as `detect` does, for all of them.
        """
        ...


def batch_fault(detector: Detector, wanted: int) -> str | None:
    """Why this detector does not run `wanted` pictures at once, in words; None if it does.

    One that knows more about it says so in an attribute `batch_limit`.
    """
    most = detector.max_batch if isinstance(detector, BatchDetector) else 1
    if wanted <= most:
        return None
    why = getattr(detector, "batch_limit", f"{detector.name} takes {most} at most")
    return (
        f"{wanted} pictures at once, but {why}; {f'write {most} or less' if most > 1 else 'leave batch out'}"
    )
