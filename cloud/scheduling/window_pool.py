"""How many frames all agents together may have in flight for one model: many while it idles, few while its queue is
long.

Sans-IO. Shared evenly: one agent's window is the pool divided by the agents, between 1 frame and `most`. A queue that
takes longer than `long_us`, or than two runs of a slower model, takes a quarter off the pool at every step; one of
less than half of it grows the pool by a twentieth and one frame: it falls in a tenth of a second and is back in one.
Such a queue keeps a detector busy; a longer one only makes frames wait (CoDel, RFC 8289, reasons likewise).
"""

STEP_US = 20_000
_SHRINK = 0.75
_GROW = 1.05
_LONG_RUNS = 2
_MOST_STEPS = 500  # after which any pool is full


class WindowPool:
    """`most`: frames in flight of one agent while the worker idles."""

    def __init__(self, *, most: int, long_us: int) -> None:
        self._most = most
        self._long_us = long_us
        self._frames: float | None = None  # None = full, however many agents come
        self._stepped_us: int | None = None

    def __repr__(self) -> str:
        return f"<WindowPool {'full' if self._frames is None else f'{self._frames:.1f} frames'}>"

    def observe(self, *, queue_us: int, service_us: int, agents: int, now_us: int) -> None:
        """The queue as a new frame would meet it, and the median run of the model."""
        if self._stepped_us is None:
            self._stepped_us = now_us
        steps = (now_us - self._stepped_us) // STEP_US
        if steps < 1:
            return
        self._stepped_us = now_us
        long_us = max(self._long_us, _LONG_RUNS * service_us)
        full = self._most * max(1, agents)
        if queue_us > long_us:
            frames = full if self._frames is None else min(self._frames, full)
            self._frames = max(frames * _SHRINK, 1, agents)
        elif queue_us <= long_us // 2 and self._frames is not None:
            # n times x ← 1.05·x + 1, whose fixed point is −20
            fixed = 1 / (1 - _GROW)
            grown = (self._frames - fixed) * _GROW ** min(steps, _MOST_STEPS) + fixed
            self._frames = None if grown >= full else grown

    def window(self, agents: int) -> int:
        """Frames in flight of one of `agents`."""
        if self._frames is None:
            return self._most
        return min(self._most, max(1, int(self._frames / max(1, agents))))
