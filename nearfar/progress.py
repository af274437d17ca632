"""What a command is doing while it gives no answer yet, for whoever waits at a terminal or reads its log.

At a terminal one line that is written anew, else a line now and then.
"""

import sys
from collections.abc import Callable
from typing import TextIO

EVERY_US = 2_000_000


class StatusLine:
    """One line of `out`, None: nobody reads. `live`: at a terminal, where the next text is written over the last."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self.live = out is not None and out.isatty()
        self._shown = 0

    def show(self, text: str) -> None:
        if self._out is None:
            return
        self._out.write(f"\r{text.ljust(self._shown)}" if self.live else f"{text}\n")
        self._out.flush()
        self._shown = len(text)

    def wipe(self) -> None:
        """Nothing of it stays at a terminal."""
        if self._out is not None and self.live and self._shown:
            self._out.write(f"\r{' ' * self._shown}\r")
            self._out.flush()
            self._shown = 0


class Progress:
    """On stderr. `over` once there is an answer."""

    def __init__(self, *, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._said_us: int | None = None
        self._line = StatusLine(sys.stderr)

    def doing(self, words: str) -> None:
        now_us = self._clock_us()
        if self._line.live or self._said_us is None or now_us - self._said_us >= EVERY_US:
            self._said_us = now_us
            self._line.show(words)

    def over(self) -> None:
        self._line.wipe()
