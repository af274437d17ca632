"""What the writer's thread is told and has not heard yet: what hurries wakes it, the rest comes along."""

import queue
import threading
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")

PATIENT_AT_MOST = 32


class WriterInbox(Generic[T]):
    """Items enter from any thread, in order; one thread takes. `nothing` is an item that only wakes."""

    def __init__(self, nothing: T) -> None:
        self._nothing = nothing
        self._items: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._patient: list[T] = []
        self._posted = 0

    @property
    def posted(self) -> int:
        """How many items there were so far, those that only wake among them."""
        with self._lock:
            return self._posted

    def post(self, item: T, *, hurry: bool = True) -> None:
        """What is in no hurry waits for company: a wake-up per frame and word would cost every other thread."""
        with self._lock:
            self._posted += 1
            if not hurry:
                self._patient.append(item)
                if len(self._patient) < PATIENT_AT_MOST:
                    return
                self._posted += 1
                item = self._nothing
        self._items.put(item)

    def end(self) -> None:
        """The last thing to hear."""
        self._items.put(None)

    def take(self, timeout_s: float) -> tuple[list[T], bool]:
        """What to handle now, and whether the end was asked for. The patient come last, taken before the queue is
        emptied: whatever was said before them is then in the queue and handled before them."""
        items: list[T | None] = []
        with suppress(queue.Empty):
            items.append(self._items.get(timeout=timeout_s))
        with self._lock:
            patient, self._patient = self._patient, []
        with suppress(queue.Empty):
            while not items or items[-1] is not None:
                items.append(self._items.get_nowait())
        return [item for item in items if item is not None] + patient, None in items
