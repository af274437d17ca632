"""The pictures just before an event, and those just after it: kept for a moment, and given out when an event comes.

Sans-IO: moments are µs of the clock frames are captured by. Frames come nearly in order, an event at any time among them.
Bounded by time and bytes; what falls out is forgotten, for nobody asked for it.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    @property
    def bytes(self) -> int: ...


P = TypeVar("P", bound=Sized)


@dataclass(slots=True)
class _Stream(Generic[P]):
    waiting: deque[tuple[int, P]] = field(default_factory=deque)
    events_us: deque[int] = field(default_factory=deque)


class AroundRing(Generic[P]):
    """`before_us`, `after_us`: how far around an event. `crowded` counts pictures that left for want of room."""

    def __init__(self, *, before_us: int, after_us: int, max_bytes: int) -> None:
        self._before_us = before_us
        self._after_us = after_us
        self._max_bytes = max_bytes
        self._bytes = 0
        self._streams: dict[str, _Stream[P]] = {}
        self.crowded = 0

    def add(self, stream: str, captured_us: int, picture: P) -> bool:
        """True if it is near an event already, and not held here."""
        of = self._streams.setdefault(stream, _Stream())
        if any(self._near(captured_us, event_us) for event_us in of.events_us):
            return True
        of.waiting.append((captured_us, picture))
        self._bytes += picture.bytes
        while of.waiting and of.waiting[0][0] < captured_us - self._before_us:
            self._drop(of)
        while self._bytes > self._max_bytes:
            self._drop(min((s for s in self._streams.values() if s.waiting), key=lambda s: s.waiting[0][0]))
            self.crowded += 1
        return False

    def event(self, stream: str, captured_us: int) -> list[P]:
        """What was held of the frames around it."""
        of = self._streams.setdefault(stream, _Stream())
        of.events_us.append(captured_us)
        while of.events_us[0] < captured_us - self._before_us - self._after_us:
            of.events_us.popleft()
        found = [picture for at_us, picture in of.waiting if self._near(at_us, captured_us)]
        of.waiting = deque(
            (at_us, picture) for at_us, picture in of.waiting if not self._near(at_us, captured_us)
        )
        self._bytes -= sum(picture.bytes for picture in found)
        return found

    def _near(self, captured_us: int, event_us: int) -> bool:
        return event_us - self._before_us <= captured_us <= event_us + self._after_us

    def _drop(self, of: _Stream[P]) -> None:
        _, picture = of.waiting.popleft()
        self._bytes -= picture.bytes
