"""Whether near has time to spare: only then may a hedge wait for its slot while near does nothing.

A near that waits for far and is then needed for every frame lost what it waited: where frames ask for nearly all of its
time it never makes that up, and near alone, which waits for nothing, would have answered more of them.
"""

from collections import deque

SHORT_SPAN_US = 1_000_000
FRAMES = 32
FEWEST_FRAMES = 8
"""How many frames say how often they come."""
FULL = 0.8
"""The share of its time that frames may ask for before near is full."""


class NearLoad:
    """`asked` for every frame once, `found_short` when there was no time for one."""

    def __init__(self) -> None:
        self._asked_us: deque[int] = deque(maxlen=FRAMES)
        self._short_us: int | None = None

    def asked(self, now_us: int) -> None:
        self._asked_us.append(now_us)

    def found_short(self, now_us: int) -> None:
        self._short_us = now_us

    def short(self, now_us: int) -> bool:
        """Whether there was lately no time for a frame."""
        return self._short_us is not None and now_us - self._short_us < SHORT_SPAN_US

    def full(self, run_us: int, now_us: int) -> bool:
        """Whether near, at `run_us` a frame, has no time to wait: it was short, or soon would be if far failed."""
        if self.short(now_us):
            return True
        asked_us = self._asked_us
        if len(asked_us) < FEWEST_FRAMES:
            return False
        return (len(asked_us) - 1) * run_us > FULL * (now_us - asked_us[0])
