"""The reader of a file or a folder: a thread that decodes ahead, publishes at the right moment and never waits for
anyone downstream.

`every` is the exception that waits: pull-driven, one frame at a time, stamped when the slot is free, `paced` False.
"""

import logging
import threading
from collections.abc import Callable

from edge.capture.base import Shape, Source
from edge.capture.publisher import Publisher
from edge.capture.state import StreamState, StreamStatus
from pipelines.errors import NearfarError

log = logging.getLogger(__name__)


class Pace:
    """When picture i of a live source is due: start + i / fps, so that waiting never drifts.

    A reader more than one period late starts a new count instead of catching up in a burst.
    """

    def __init__(self, fps: float) -> None:
        self._period_us = 1e6 / fps
        self._start_us = 0.0
        self._given = 0

    def next_us(self, now_us: int) -> int:
        """The moment the next picture is due, in µs of `now_us`'s clock; never more than a period ago."""
        due_us = self._start_us + self._given * self._period_us
        if not self._given or now_us - due_us > self._period_us:
            self._start_us, self._given, due_us = float(now_us), 0, float(now_us)
        self._given += 1
        return round(due_us)


class Reader(threading.Thread):
    """Reads `source` into `publisher` from `start` until its end, the last frame wanted, an error or `stop`.

    `pace`: "real_time" | "as_fast_as_possible"; `frames`: "latest" | "every". `ended(stream, error)` is called from
    this thread exactly once, error None unless the source failed.
    """

    def __init__(
        self,
        *,
        source: Source,
        publisher: Publisher,
        pace: str,
        frames: str,
        ended: Callable[[str, str | None], None],
        clock_us: Callable[[], int],
    ) -> None:
        self._stream = publisher.stream
        super().__init__(name=f"capture-{self._stream}", daemon=True)
        self._source = source
        self._publisher = publisher
        self._real_time = pace == "real_time"
        self._pulled = frames == "every"
        self._ended = ended
        self._clock_us = clock_us
        self._stopping = threading.Event()
        self._shape: Shape | None = None
        self._state = (StreamState.CONNECTING, clock_us(), "")

    def open(self) -> Shape:
        """Open the source from the caller's thread, before `start`, to learn its shape and its faults early.

        Raises what `Source.open` raises; without it, `start` opens the source itself.
        """
        if self._shape is None:
            self._shape = self._source.open()
        return self._shape

    @property
    def shape(self) -> Shape:
        """Of the pictures; zeros before `open`."""
        return self._shape or Shape(width_px=0, height_px=0, fps=0.0)

    def status(self) -> StreamStatus:
        """How the stream is doing; from any thread."""
        state, since_us, reason = self._state
        return StreamStatus(
            state=state,
            since_us=since_us,
            reason=reason,
            frames=self._publisher.captured,
            width_px=self.shape.width_px,
            height_px=self.shape.height_px,
        )

    def stop(self) -> None:
        """Ask the thread to end; it does within 100 ms besides the picture being decoded. Harmless twice."""
        self._stopping.set()

    def close(self, timeout_s: float = 1.0) -> bool:
        """Stop, wait for the thread and close the source; False if the thread still hangs in a read."""
        self.stop()
        if self.ident is not None:
            self.join(timeout_s)
        if self.is_alive():
            return False
        self._source.close()
        return True

    def run(self) -> None:
        error: str | None = None
        try:
            shape = self.open()
            self._state = (StreamState.RUNNING, self._clock_us(), "")
            self._read_on(shape)
        except NearfarError as broken:
            error = str(broken)
        except Exception as broken:
            log.exception("stream %s: the source failed", self._stream)
            error = f"{type(broken).__name__}: {broken}"
        finally:
            self._source.close()
            state = StreamState.ENDED if error is None else StreamState.FAILED
            self._state = (state, self._clock_us(), error or "")
            self._ended(self._stream, error)

    def _read_on(self, shape: Shape) -> None:
        pace = Pace(shape.fps)
        while not self._stopping.is_set() and not self._publisher.done:
            picture = self._source.read()
            if picture is None:
                return
            if self._real_time and not self._wait_until(pace.next_us(self._clock_us())):
                return
            if self._pulled and not self._publisher.slot.wait_until_free(self._stopping):
                return
            self._publisher.publish(picture)

    def _wait_until(self, due_us: int) -> bool:
        """False when `stop` came first."""
        return not self._stopping.wait(max(0, due_us - self._clock_us()) / 1e6)
