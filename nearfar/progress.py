"""What a command is doing while it gives no answer yet, for whoever waits at a terminal or reads its log.

On stderr: at a terminal one line that is written anew, else a line now and then.
"""

import sys
from collections.abc import Callable

EVERY_US = 2_000_000


class Progress:
    """`over` once there is an answer."""

    def __init__(self, *, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._said_us: int | None = None
        self._length = 0
        self._terminal = sys.stderr is not None and sys.stderr.isatty()

    def doing(self, words: str) -> None:
        if sys.stderr is None:
            return
        if self._terminal:
            sys.stderr.write(f"\r{words.ljust(self._length)}")
            sys.stderr.flush()
            self._length = len(words)
            return
        now_us = self._clock_us()
        if self._said_us is None or now_us - self._said_us >= EVERY_US:
            self._said_us = now_us
            print(words, file=sys.stderr, flush=True)

    def over(self) -> None:
        if self._terminal and self._length:
            sys.stderr.write(f"\r{' ' * self._length}\r")
            sys.stderr.flush()
