"""Numbers of frames as ranges: one entry per run of neighbours, not one per frame."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Kind = TypeVar("Kind", bound=Hashable)

MERGE_EVERY = 256


class Ranges(Generic[Kind]):
    """Seqs by kind, added one by one; one that is added twice counts once."""

    def __init__(self) -> None:
        self._ranges: dict[Kind, list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        """How many ranges there are; a few more while seqs come out of order."""
        return sum(len(ranges) for ranges in self._ranges.values())

    def __iter__(self) -> Iterator[tuple[Kind, int, int]]:
        """(kind, first, last), sorted within a kind and without overlaps."""
        for kind, ranges in self._ranges.items():
            for first, last in _merged(ranges):
                yield kind, first, last

    def add(self, kind: Kind, seq: int) -> None:
        ranges = self._ranges.setdefault(kind, [])
        if ranges and ranges[-1][0] <= seq <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(seq, ranges[-1][1]))
            return
        ranges.append((seq, seq))
        if len(ranges) % MERGE_EVERY == 0:  # what came out of order may have become neighbours
            ranges[:] = _merged(ranges)

    def clear(self) -> None:
        self._ranges.clear()


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
