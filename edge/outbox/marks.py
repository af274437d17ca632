"""How far each stream of this run is reserved and explained, so that the next start can name what is missing.

`reserved` runs ahead of capture in steps, so one small write covers many frames. `settled` is the end of the
unbroken row of frames, from 1, that are in the outbox, in the cloud, or explained by a gap. What lies between
them after a crash is `interrupted`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from edge.outbox.store import Watermark
from pipelines.result import Gap, GapReason

STEP = 256


@dataclass(slots=True)
class _Mark:
    reserved: int = 0
    seen: int = 0
    settled: int = 0
    beyond: set[int] = field(default_factory=set)  # explained, after a frame that is not


class Marks:
    def __init__(self, run: bytes) -> None:
        self._run = run
        self._streams: dict[str, _Mark] = {}
        self.due = False
        """A reservation has to be written before capture reaches it."""

    def captured(self, stream: str, seq: int) -> None:
        """`seq` was given to a frame, or 0: frames are about to come."""
        mark = self._streams.setdefault(stream, _Mark())
        mark.seen = max(mark.seen, seq)
        if mark.seen + STEP // 2 > mark.reserved:
            mark.reserved = mark.seen + STEP
            self.due = True

    def explained(self, stream: str, seq: int) -> None:
        mark = self._streams.setdefault(stream, _Mark())
        mark.seen = max(mark.seen, seq)
        if seq > mark.settled:
            mark.beyond.add(seq)
        while mark.settled + 1 in mark.beyond:
            mark.settled += 1
            mark.beyond.discard(mark.settled)

    def save(self) -> dict[str, _Mark]:
        """For `restore`, should the transaction that was to explain some frames fail."""
        return {stream: replace(mark, beyond=set(mark.beyond)) for stream, mark in self._streams.items()}

    def restore(self, saved: dict[str, _Mark]) -> None:
        self._streams = saved

    def watermarks(self, *, exact: bool = False) -> list[Watermark]:
        """As they should be written; `exact` at the end: nothing above the last frame is reserved any more."""
        return [
            Watermark(
                run=self._run,
                stream=stream,
                reserved=mark.seen if exact else max(mark.reserved, mark.seen),
                settled=mark.settled,
            )
            for stream, mark in sorted(self._streams.items())
        ]


def interrupted(marks: Iterable[Watermark]) -> list[Gap]:
    """What runs that have ended reserved and did not explain; nothing for one that ended cleanly."""
    return [
        Gap(
            run=mark.run,
            stream=mark.stream,
            first=mark.settled + 1,
            last=mark.reserved,
            reason=GapReason.INTERRUPTED,
        )
        for mark in marks
        if mark.reserved > mark.settled
    ]
