"""Frames without a record, coalesced: one range per run of neighbours, not one row per frame.

Seqs are added one by one per (stream, reason, detail) and taken as ranges about every two seconds, so that a
gate that drops every other frame for a day costs little. A seq that is added twice counts once.
"""

from edge.outbox.ranges import Ranges
from pipelines.result import Gap, GapReason

Kind = tuple[str, GapReason, str]
Key = tuple[bytes, str, int]


class GapRanges:
    """Ranges not yet written down; `since_us` is when the oldest of them began, None when there is none."""

    def __init__(self) -> None:
        self._ranges: Ranges[Kind] = Ranges()
        self.since_us: int | None = None

    def __len__(self) -> int:
        return len(self._ranges)

    def add(self, *, stream: str, seq: int, reason: GapReason, detail: str, now_us: int) -> None:
        if self.since_us is None:
            self.since_us = now_us
        self._ranges.add((stream, reason, detail), seq)

    def peek(self, run: bytes) -> list[Gap]:
        """Every range as a Gap of `run`, sorted and without overlaps."""
        return [
            Gap(run=run, stream=stream, first=first, last=last, reason=reason, detail=detail)
            for (stream, reason, detail), first, last in sorted(self._ranges)
        ]

    def clear(self) -> None:
        self._ranges.clear()
        self.since_us = None


def evicted_gap(key: Key, why: str) -> Gap:
    """A record that was given up to stay within the bounds, or by a person."""
    run, stream, seq = key
    return Gap(run=run, stream=stream, first=seq, last=seq, reason=GapReason.EVICTED, detail=why)


def unreadable_gap(key: Key) -> Gap:
    """A record that was damaged where it lay."""
    run, stream, seq = key
    return Gap(
        run=run, stream=stream, first=seq, last=seq, reason=GapReason.INTERRUPTED, detail="record damaged"
    )


def refused_gap(key: Key) -> Gap:
    """A record that a worker can read nothing of."""
    return evicted_gap(key, "refused by the worker")
