"""The demo's link: what it does when, and which moments are judged."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

GRACE_AFTER_HEAL_S = 1.5
"""Far has to be back within this; until then a healthy phase is not judged for its far share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """`seconds` of one state of the link; `rtt_ms` round trip while it passes."""

    name: str
    seconds: float
    state: Literal["pass", "stall"]
    rtt_ms: float
    good: bool


PHASES = (
    Phase(name="healthy", seconds=9, state="pass", rtt_ms=20, good=True),
    Phase(name="RTT 200 ms", seconds=8, state="pass", rtt_ms=200, good=False),
    Phase(name="healthy again", seconds=9, state="pass", rtt_ms=20, good=True),
    Phase(name="outage", seconds=8, state="stall", rtt_ms=20, good=False),
    Phase(name="healed", seconds=10, state="pass", rtt_ms=20, good=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A phase as it happened, in unix seconds."""

    phase: Phase
    start_s: float
    end_s: float

    def holds(self, unix_s: float) -> bool:
        return self.start_s <= unix_s < self.end_s

    @property
    def judged_from_s(self) -> float:
        """Far gets its grace after a heal; what was in flight when the link went bad is given 100 ms."""
        return self.start_s + (GRACE_AFTER_HEAL_S if self.phase.good else 0.1)


def write_moments(path: Path, moments: Sequence[Moment]) -> None:
    """The phases as they happened, for the report's time axis."""
    rows = [
        {
            "name": m.phase.name,
            "good": m.phase.good,
            "start_unix_ms": m.start_s * 1000,
            "end_unix_ms": m.end_s * 1000,
        }
        for m in moments
    ]
    path.write_text(json.dumps(rows, indent=1) + "\n")
