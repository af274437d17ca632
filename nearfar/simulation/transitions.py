"""How long far takes to come back, by one definition for simulated runs and for runs over emulated links."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T", int, float)


def far_again(
    far_at: Sequence[T], spans: Sequence[tuple[T, T]], *, looked_from: Sequence[T] = ()
) -> list[T | None]:
    """From each bad span's end to the first of `far_at` (when far answers were released on time, ascending) behind it;
    None = there was none before the next span. `looked_from`: moments later than the ends to look from, one a span;
    the time is counted from the end all the same. All in one unit."""
    ends = [end for _, end in spans]
    nexts: list[T | None] = [following[0] for _, following in pairwise(spans)]
    found: list[T | None] = []
    for end, start, until in zip(ends, looked_from or ends, [*nexts, None], strict=False):
        first = next((at for at in far_at if at >= start and (until is None or at < until)), None)
        found.append(None if first is None else first - end)
    return found
