"""What the writer's thread is told and has not heard yet: what hurries wakes it, the rest comes along.

Behind a disk that hangs it stays bounded: records by their number, payloads by their bytes, words about frames as
ranges, and what was said about the pace of the moment not at all.
"""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from edge.outbox.hang_guard import HangGuard, WaitingRecord
from edge.outbox.keeper import Keeper
from edge.outbox.meanwhile import Listener
from pipelines.frame import FrameId

Event = Callable[[Keeper, int], None]

PATIENT_AT_MOST = 32


def _nothing(_keeper: Keeper, _now_us: int) -> None:
    """Only wakes the writer."""


class WriterInbox:
    """Events enter from any thread, in order; one thread takes."""

    def __init__(self, guard: HangGuard, clock_us: Callable[[], int]) -> None:
        self._guard = guard
        self._clock_us = clock_us
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._patient: list[Event] = []
        self._posted = 0

    @property
    def posted(self) -> int:
        """How many events there were so far, those that only wake among them."""
        with self._lock:
            return self._posted

    def post(self, event: Event, *, hurry: bool = True) -> None:
        """What is in no hurry waits for company: a wake-up per frame and word would cost every other thread."""
        with self._lock:
            self._posted += 1
            if not hurry:
                self._patient.append(event)
                if len(self._patient) < PATIENT_AT_MOST:
                    return
                self._posted += 1
                event = _nothing
        self._events.put(event)

    def record(self, frame: FrameId, priority: int, event: Event) -> None:
        waiting = WaitingRecord(frame, priority, event)

        def heard(keeper: Keeper, now_us: int) -> None:
            if (tell := self._guard.record_leaves(waiting)) is not None:
                tell(keeper, now_us)

        if self._guard.record_enters(waiting, self._clock_us()):
            self.post(heard)

    def payload(self, size_bytes: int, event: Event) -> None:
        def heard(keeper: Keeper, now_us: int) -> None:
            self._guard.payload_leaves(size_bytes)
            event(keeper, now_us)

        if self._guard.payload_enters(size_bytes):
            self.post(heard)

    def word(self, tell: Callable[[Listener, int], None], *, hurry: bool = True) -> None:
        """About one frame: a disk that hangs for hours would leave millions of them."""
        if not self._guard.aside(tell, self._clock_us()):
            self.post(tell, hurry=hurry)

    def pace(self, event: Event) -> None:
        """How the live lane does at this moment: of no use later."""
        if not self._guard.hangs(self._clock_us()):
            self.post(event, hurry=False)

    def end(self) -> None:
        """The last thing to hear."""
        self._events.put(None)

    def take(self, timeout_s: float) -> tuple[list[Event], bool]:
        """What to handle now, and whether the end was asked for. The patient come last, taken before the queue is
        emptied: whatever was said before them is then in the queue and handled before them."""
        events: list[Event | None] = []
        with suppress(queue.Empty):
            events.append(self._events.get(timeout=timeout_s))
        with self._lock:
            patient, self._patient = self._patient, []
        with suppress(queue.Empty):
            while not events or events[-1] is not None:
                events.append(self._events.get_nowait())
        return [event for event in events if event is not None] + patient, None in events
