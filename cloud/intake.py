"""Bulk batches are opened on a thread of their own, so that unpacking never delays a Pong or a live frame."""

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

S = TypeVar("S")
M = TypeVar("M")


class BulkIntake(Generic[S, M]):
    """`open_batch(sender, batch)` runs on the intake's thread; at most `most` batches wait."""

    def __init__(self, open_batch: Callable[[S, M], None], *, most: int = 16) -> None:
        self._open = open_batch
        self._queue: queue.Queue[tuple[S, M] | None] = queue.Queue(most)
        self._thread = threading.Thread(target=self._run, name="nearfar-bulk", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(self, sender: S, batch: M) -> bool:
        """False when too many wait; the agent sends it again later."""
        try:
            self._queue.put_nowait((sender, batch))
        except queue.Full:
            return False
        return True

    def stop(self, timeout_s: float) -> None:
        """Open what waits, then end the thread."""
        if self._thread.is_alive():
            with contextlib.suppress(queue.Full):  # stuck: the thread is a daemon and ends with the process
                self._queue.put(None, timeout=timeout_s)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            self._open(*item)
