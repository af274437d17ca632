"""When the relay was late: what the machine did to the emulated link, told apart from what the link did.

The relay counts by ticks of 100 ms how late it moved a packet. A virtual machine is now and then not run at all for some
ms, so hardly a minute is without such a tick: a frame that met one is left out of every rate and of F1, under every
policy alike, and a run with many of them is discarded whole.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_LATE_US = 1000.0
"""A relay that was later than this distorted the link."""
MOST_SHARE = 0.05
TICK_S = 0.1


@dataclass(frozen=True, slots=True)
class Disturbance:
    """`ends_s`: monotonic ends of the ticks in which the relay was late, of `ticks` while frames were on their way;
    `late_max_us`: the latest of all."""

    ends_s: Sequence[float]
    ticks: int
    late_max_us: float

    @classmethod
    def read(cls, packets: Path, from_s: float, to_s: float) -> "Disturbance":
        """From the relay's CSV."""
        with packets.open() as file:
            late = [
                (float(row["mono_s"]), max(float(row["up_late_max_us"]), float(row["down_late_max_us"])))
                for row in csv.DictReader(file)
                if from_s <= float(row["mono_s"]) <= to_s
            ]
        ends = [end_s for end_s, late_us in late if late_us > MOST_LATE_US]
        return cls(ends, len(late), max((late_us for _, late_us in late), default=0.0))

    @property
    def share(self) -> float:
        return len(self.ends_s) / self.ticks if self.ticks else 0.0

    def why_discarded(self) -> str:
        """Empty where the run counts."""
        if self.share <= MOST_SHARE:
            return ""
        return f"the relay was late in {100 * self.share:.0f} % of the time, by up to {self.late_max_us / 1000:.1f} ms"

    def touched(self, *, first_s: float, fps: float, count: int, deadline_s: float) -> set[int]:
        """Places of frames, from 0, whose time from capture to deadline meets a tick that was late. The place and not
        the gateway's clock says when a frame was captured: the clock may have been set."""
        return {
            place
            for place in range(count)
            for at_s in [first_s + place / fps]
            if any(end_s - TICK_S - deadline_s <= at_s <= end_s for end_s in self.ends_s)
        }
