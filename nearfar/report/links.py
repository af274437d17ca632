"""`link.jsonl` as columns: the state of the link and its round trips over time."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
    """N looks at the link. `rtt_ms` is NaN where none was measured; `state` indexes STATES. The band is None
    when there is no line that says it."""

    name: str
    unix_ms: NDArray[np.float64]
    rtt_ms: NDArray[np.float64]
    state: NDArray[np.uint8]
    reasons: tuple[str, ...]
    fall_back_above_ms: float | None
    return_below_ms: float | None
    damaged: int

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


def read_link(path: Path) -> LinkHistory:
    """The history in a run directory's `link.jsonl`; an empty one if there is no such file. Raises OSError."""
    at: list[float] = []
    rtt_ms: list[float] = []
    state: list[int] = []
    reasons: list[str] = []
    name = ""
    band: tuple[float, float] | None = None
    damaged = 0
    if path.exists():
        with path.open("rb") as file:
            for text in file:
                try:
                    line = json.loads(text)
                    at_ms = unix_ms(line["unix_ms"])
                    rtt = float("nan") if line["rtt_ms"] is None else number(line["rtt_ms"])
                    looked = 2 if not line["connected"] else int(not line["in_budget"])
                    band = band or (number(line["fall_back_above_ms"]), number(line["return_below_ms"]))
                    name = name or str(line["link"])
                    reason = str(line["reason"])
                except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                    damaged += 1
                    continue
                at.append(at_ms)
                rtt_ms.append(rtt)
                state.append(looked)
                reasons.append(reason)
    times = mended(np.array(at, np.float64))
    order = np.argsort(times, kind="stable")
    return LinkHistory(
        name=name,
        unix_ms=times[order],
        rtt_ms=np.array(rtt_ms, np.float64)[order],
        state=np.array(state, np.uint8)[order],
        reasons=tuple(reasons[i] for i in order),
        fall_back_above_ms=None if band is None else band[0],
        return_below_ms=None if band is None else band[1],
        damaged=damaged,
    )
