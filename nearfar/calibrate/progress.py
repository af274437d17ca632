"""How far a long piece of work is, on a terminal as one line that is written over, in a log a line now and then."""

import sys
import time
from typing import TextIO

from nearfar.progress import StatusLine

_EVERY_S = 0.2
_IN_LOGS_EVERY_S = 10.0


class Progress:
    """`of` pieces are expected, 0 = not known."""

    def __init__(self, what: str, *, of: int, out: TextIO | None = None) -> None:
        self._what = what
        self._of = of
        self._line = StatusLine(out or sys.stderr)
        self._begun_s = self._said_s = time.monotonic()

    def done(self, count: int) -> None:
        """0, when the work begins, is always said."""
        now_s = time.monotonic()
        if count and now_s - self._said_s < (_EVERY_S if self._line.live else _IN_LOGS_EVERY_S):
            return
        self._said_s = now_s
        self._line.show(words(self._what, count=count, of=self._of, took_s=now_s - self._begun_s))

    def end(self) -> None:
        """Nothing of it stays on a terminal."""
        self._line.wipe()


def words(what: str, *, count: int, of: int, took_s: float) -> str:
    """`calibrating: 40 of 200, 1 min 20 s left`."""
    if not of:
        return f"{what}: {count}"
    text = f"{what}: {count} of {of}"
    if not count:
        return text
    left_s = round(took_s / count * max(0, of - count))
    return f"{text}, {left_s // 60} min {left_s % 60} s left" if left_s >= 60 else f"{text}, {left_s} s left"
