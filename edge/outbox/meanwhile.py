"""What is said of frames while nobody listens: kept as ranges, and told once somebody does."""

from typing import Protocol

from edge.outbox.ranges import Ranges
from pipelines.result import GapReason


class Listener(Protocol):
    """What may be said of frames, as the keeper hears it."""

    def captured(self, stream: str, seq: int) -> None: ...
    def settled(self, stream: str, seq: int) -> None: ...
    def gap(self, *, stream: str, seq: int, reason: GapReason, detail: str, now_us: int) -> None: ...


class Meanwhile:
    """A `Listener` whose memory does not grow with the number of frames."""

    def __init__(self) -> None:
        self._captured: dict[str, int] = {}
        self._settled: Ranges[str] = Ranges()
        self._gaps: Ranges[tuple[str, GapReason, str]] = Ranges()

    def captured(self, stream: str, seq: int) -> None:
        self._captured[stream] = max(seq, self._captured.get(stream, 0))

    def settled(self, stream: str, seq: int) -> None:
        self._settled.add(stream, seq)

    def gap(self, *, stream: str, seq: int, reason: GapReason, detail: str, now_us: int) -> None:  # noqa: ARG002 - a gap has no time of its own
        self._gaps.add((stream, reason, detail), seq)

    def tell(self, listener: Listener, now_us: int) -> None:
        """Everything, in the order in which frames live: captured, given up, settled."""
        for stream, seq in self._captured.items():
            listener.captured(stream, seq)
        for (stream, reason, detail), first, last in self._gaps:
            for seq in range(first, last + 1):
                listener.gap(stream=stream, seq=seq, reason=reason, detail=detail, now_us=now_us)
        for stream, first, last in self._settled:
            for seq in range(first, last + 1):
                listener.settled(stream, seq)
