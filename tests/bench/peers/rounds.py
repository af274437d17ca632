"""Every peer in turn, round after round: a short closed loop and a short window each, so that whatever else the
machine does weighs on all of them alike.

One that stops answering is started anew, and its round is empty; after RESTARTS of them it is left out for good, with
its last words. The order turns round every round, so that nobody always follows the same neighbour.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from tests.bench.peers.kinds import Peer
from tests.bench.peers.pair import PeerFailed

WINDOW = 8
RESTARTS = 10
WARM_UP_FRAMES = 100
_FEWEST, _MOST = 16, 5000

Measured = dict[str, float]


class Running(Protocol):
    """A server and a client that are connected: `Pair`, or a stand-in."""

    def ask(self, *, size_bytes: int, frames: int, window: int) -> dict[str, float]: ...

    def close(self) -> None: ...


Start = Callable[[Peer], Running]


@dataclass(frozen=True)
class Taken:
    """`by_size[size_bytes][peer]` has an entry a round, None where the peer failed: `p50_us`, `p99_us` and `cpu_us`
    (per frame, both sides) of the closed loop; of peers that know a window `window_per_s` and `window_cpu_us` too."""

    by_size: dict[int, dict[str, list[Measured | None]]] = field(default_factory=dict)
    restarts: dict[str, dict[str, int]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class _Entrant:
    """A peer and how it is doing."""

    def __init__(self, peer: Peer, start: Start) -> None:
        self.peer = peer
        self.restarts: list[str] = []  # why
        self.failed: str | None = None
        self._start = start
        self._running: Running | None = None

    def ask(self, *, size_bytes: int, frames: int, window: int) -> Measured | None:
        if self.failed is not None:
            return None
        try:
            if self._running is None:
                self._running = self._start(self.peer)
            return self._running.ask(size_bytes=size_bytes, frames=frames, window=window)
        except PeerFailed as error:
            self.close()
            if len(self.restarts) == RESTARTS:
                self.failed = str(error)
            else:
                self.restarts.append(str(error))
            return None

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None


def measure(
    peers: Iterable[Peer], start: Start, *, sizes_bytes: Sequence[int], rounds: int, seconds: float
) -> Taken:
    """`seconds`: about how long each loop of a round lasts, as the warm-up said how many frames that is."""
    taken = Taken()
    with ExitStack() as stack:
        entrants = [_Entrant(peer, start) for peer in peers]
        for entrant in entrants:
            stack.callback(entrant.close)
        for size_bytes in sizes_bytes:
            frames = {e.peer.name: _warm_up(e, size_bytes=size_bytes, seconds=seconds) for e in entrants}
            cells: dict[str, list[Measured | None]] = {e.peer.name: [] for e in entrants}
            for number in range(rounds):
                for entrant in entrants[:: -1 if number % 2 else 1]:
                    name = entrant.peer.name
                    cells[name].append(_round(entrant, size_bytes=size_bytes, frames=frames[name]))
            taken.by_size[size_bytes] = cells
        taken.restarts.update({e.peer.name: dict(Counter(e.restarts)) for e in entrants if e.restarts})
        taken.failed.update({e.peer.name: e.failed for e in entrants if e.failed is not None})
    return taken


def _windows(peer: Peer) -> tuple[int, ...]:
    return (1, WINDOW) if peer.windowed else (1,)


def _warm_up(entrant: _Entrant, *, size_bytes: int, seconds: float) -> dict[int, int]:
    """By window, how many frames a round is to have."""
    frames = {}
    for window in _windows(entrant.peer):
        got = entrant.ask(size_bytes=size_bytes, frames=WARM_UP_FRAMES, window=window)
        wanted = WARM_UP_FRAMES if got is None else int(got["per_s"] * seconds)
        frames[window] = min(max(wanted, _FEWEST), _MOST)
    return frames


def _round(entrant: _Entrant, *, size_bytes: int, frames: dict[int, int]) -> Measured | None:
    closed = entrant.ask(size_bytes=size_bytes, frames=frames[1], window=1)
    if closed is None:
        return None
    cell = {
        "p50_us": closed["p50_us"],
        "p99_us": closed["p99_us"],
        "cpu_us": 1e6 * closed["cpu_s"] / frames[1],
    }
    if entrant.peer.windowed:
        flow = entrant.ask(size_bytes=size_bytes, frames=frames[WINDOW], window=WINDOW)
        if flow is None:
            return None
        cell |= {"window_per_s": flow["per_s"], "window_cpu_us": 1e6 * flow["cpu_s"] / frames[WINDOW]}
    return cell
