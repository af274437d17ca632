"""Until when the thread that ends what expired may sleep, and the bell that wakes it sooner.

Nobody is woken for a frame that has more time than that. All but `wait` is called under the lock of whoever owns the
frames, so that none comes in between a look at them and the setting of the alarm.
"""

import threading

LATE_US = 5_000
"""A frame's end may be told that late: one look is then made for all that expire within it."""


class Alarm:
    """Times in µs of the owner's clock; `until_us` is 0 before it was first set."""

    def __init__(self) -> None:
        self.until_us = 0
        self._bell = threading.Event()

    def set(self, now_us: int, *, soonest_us: int | None, most_us: int) -> int:
        """Sleep until what expires at `soonest_us` has, for `most_us` at most; for how long, µs."""
        self._bell.clear()
        sleep_us = most_us
        if soonest_us is not None:
            sleep_us = min(most_us, max(soonest_us - now_us, LATE_US))
        self.until_us = now_us + sleep_us
        return sleep_us

    def expires(self, expiry_us: int) -> None:
        """Something came in that expires then."""
        if expiry_us + LATE_US < self.until_us:
            self.ring()

    def ring(self) -> None:
        """Wake whoever sleeps, or is about to."""
        self.until_us = 0
        self._bell.set()

    def wait(self, sleep_us: int) -> None:
        """Sleep so long, or until it rings."""
        self._bell.wait(sleep_us / 1e6)
