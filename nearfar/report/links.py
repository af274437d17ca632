"""`link.jsonl` as columns: the state of each link and its round trips over time."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.report.clock import mended
from nearfar.report.numbers import number, unix_ms

STATES = ("in budget", "over budget", "no connection")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretch:
    """A time in which nothing about the link's state changed, in unix ms."""

    state: str
    reason: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkHistory:
    """N looks at one link. `rtt_ms` is NaN where none was measured; `state` indexes STATES. The band is None
    when there is no line that says it."""

    name: str
    unix_ms: NDArray[np.float64]
    rtt_ms: NDArray[np.float64]
    state: NDArray[np.uint8]
    reasons: tuple[str, ...]
    fall_back_above_ms: float | None
    return_below_ms: float | None

    def __len__(self) -> int:
        return len(self.unix_ms)

    def stretches(self, end_ms: float) -> Iterator[Stretch]:
        """Consecutive looks of one state and reason, the last one until `end_ms`."""
        begun = 0
        for i in range(1, len(self) + 1):
            same = (
                i < len(self)
                and self.state[i] == self.state[begun]
                and self.reasons[i] == self.reasons[begun]
            )
            if not same:
                yield Stretch(
                    state=STATES[self.state[begun]],
                    reason=self.reasons[begun],
                    start_ms=float(self.unix_ms[begun]),
                    end_ms=float(self.unix_ms[i] if i < len(self) else max(end_ms, self.unix_ms[begun])),
                )
                begun = i


@dataclass(slots=True)
class _Looks:
    """What the lines of one link said, in their order."""

    at: list[float] = field(default_factory=list)
    rtt_ms: list[float] = field(default_factory=list)
    state: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    band: tuple[float, float] | None = None

    def add(self, line: Any) -> None:
        """Raises what a line that is none raises."""
        at_ms = unix_ms(line["unix_ms"])
        rtt = float("nan") if line["rtt_ms"] is None else number(line["rtt_ms"])
        looked = 2 if not line["connected"] else int(not line["in_budget"])
        self.band = self.band or (number(line["fall_back_above_ms"]), number(line["return_below_ms"]))
        reason = str(line["reason"])
        self.at.append(at_ms)
        self.rtt_ms.append(rtt)
        self.state.append(looked)
        self.reasons.append(reason)

    def history(self, name: str) -> LinkHistory:
        times = mended(np.array(self.at, np.float64))
        order = np.argsort(times, kind="stable")
        return LinkHistory(
            name=name,
            unix_ms=times[order],
            rtt_ms=np.array(self.rtt_ms, np.float64)[order],
            state=np.array(self.state, np.uint8)[order],
            reasons=tuple(self.reasons[i] for i in order),
            fall_back_above_ms=None if self.band is None else self.band[0],
            return_below_ms=None if self.band is None else self.band[1],
        )


def read_links(path: Path) -> tuple[tuple[LinkHistory, ...], int]:
    """The history of each link in a run directory's `link.jsonl`, in the order in which they appear, and how many lines
    are damaged; none if there is no such file. Raises OSError."""
    looks: dict[str, _Looks] = {}
    damaged = 0
    if path.exists():
        with path.open("rb") as file:
            for text in file:
                try:
                    line = json.loads(text)
                    looks.setdefault(str(line["link"]), _Looks()).add(line)
                except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                    damaged += 1
    return tuple(found.history(name) for name, found in looks.items() if found.at), damaged
