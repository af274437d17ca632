"""The reader of one stream: a thread that decodes ahead, publishes at the right moment and never waits for
anyone downstream.

Every frame gets its seq before it can be lost, so whatever becomes of it is counted. `every` is the
exception that waits: pull-driven, one frame at a time, stamped when the slot is free, `paced` False.
"""

import logging
import threading
from collections.abc import Callable

from edge.capture.base import Shape, Source
from edge.capture.slot import Slot
from pipelines.errors import NearfarError
from pipelines.frame import Frame, Picture

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
    """Reads `source` into `slot` from `start` until its end, `max_frames`, an error or `stop`.

    `pace`: "real_time" | "as_fast_as_possible"; `frames`: "latest" | "every"; `latency_us` is the age a
    picture has when it is decoded. All callbacks come from this thread: `captured(stream, seq)` when a seq is
    assigned, then `overwritten(frame)` for the frame that was displaced, if any, then `offered(stream)`; in the end
    `ended(stream, error)` exactly once, error None unless the source failed.
    """

    def __init__(
        self,
        *,
        stream: str,
        source: Source,
        slot: Slot,
        pace: str,
        frames: str,
        latency_us: int,
        offered: Callable[[str], None],
        overwritten: Callable[[Frame], None],
        captured: Callable[[str, int], None],
        ended: Callable[[str, str | None], None],
        clock_us: Callable[[], int],
        unix_us: Callable[[], int],
        first_seq: int = 1,
        max_frames: int | None = None,
    ) -> None:
        super().__init__(name=f"capture-{stream}", daemon=True)
        self._stream = stream
        self._source = source
        self._slot = slot
        self._real_time = pace == "real_time"
        self._pulled = frames == "every"
        self._latency_us = latency_us
        self._offered = offered
        self._overwritten = overwritten
        self._captured = captured
        self._ended = ended
        self._clock_us = clock_us
        self._unix_us = unix_us
        self._seq = first_seq
        self._left = max_frames
        self._stopping = threading.Event()
        self._shape: Shape | None = None

    def open(self) -> Shape:
        """Open the source from the caller's thread, before `start`, to learn its shape and its faults early.

        Raises what `Source.open` raises; without it, `start` opens the source itself.
        """
        if self._shape is None:
            self._shape = self._source.open()
        return self._shape

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
            self._read_on(self.open())
        except NearfarError as broken:
            error = str(broken)
        except Exception as broken:
            log.exception("stream %s: the source failed", self._stream)
            error = f"{type(broken).__name__}: {broken}"
        finally:
            self._source.close()
            self._ended(self._stream, error)

    def _read_on(self, shape: Shape) -> None:
        pace = Pace(shape.fps)
        while not self._stopping.is_set() and self._left != 0:
            picture = self._source.read()
            if picture is None:
                return
            if self._real_time and not self._wait_until(pace.next_us(self._clock_us())):
                return
            if self._pulled and not self._slot.wait_until_free(self._stopping):
                return
            self._publish(picture)
            if self._left is not None:
                self._left -= 1

    def _wait_until(self, due_us: int) -> bool:
        """False when `stop` came first."""
        return not self._stopping.wait(max(0, due_us - self._clock_us()) / 1e6)

    def _publish(self, picture: Picture) -> None:
        available_us = self._clock_us()
        frame = Frame(
            stream=self._stream,
            seq=self._seq,
            picture=picture,
            captured_us=available_us - self._latency_us,
            available_us=available_us,
            captured_unix_us=self._unix_us() - self._latency_us,
            paced=not self._pulled,
        )
        self._captured(self._stream, self._seq)
        self._seq += 1
        displaced = self._slot.put(frame)
        if displaced is not None:
            self._overwritten(displaced)
        self._offered(self._stream)
