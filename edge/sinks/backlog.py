"""What one reader of the answer socket still has to get: whole lines, newest kept, the missing ones told.

Sans-IO: `add` takes a line, `next_chunk` says what to send now, `sent` how much of it went. At most `limit_bytes`
wait; beyond that the oldest whole lines give way, and the reader gets `{"dropped": n}` where they were.
"""

import json
from collections import deque


class Backlog:
    """`missed` counts every line this reader will never get, whether or not it was told yet."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._begun = memoryview(b"")  # the rest of a line that was begun, or of a notice
        self._begun_is_answer = False
        self._untold = 0
        self.missed = 0

    def __bool__(self) -> bool:
        """Whether anything is left to send."""
        return bool(self._begun or self._lines or self._untold)

    def add(self, line: bytes) -> None:
        """`line` ends with a line feed. A single line larger than the limit still waits, alone."""
        while self._lines and self._waiting_bytes + len(line) > self._limit_bytes:
            self._waiting_bytes -= len(self._lines.popleft())
            self._untold += 1
            self.missed += 1
        self._lines.append(line)
        self._waiting_bytes += len(line)

    def next_chunk(self) -> memoryview:
        """What to send next; empty when there is nothing. A gap is told before the lines that follow it."""
        if not self._begun:
            if self._untold:
                notice = json.dumps({"dropped": self._untold}, separators=(",", ":"))
                self._begun, self._begun_is_answer = memoryview(notice.encode() + b"\n"), False
                self._untold = 0
            elif self._lines:
                line = self._lines.popleft()
                self._waiting_bytes -= len(line)
                self._begun, self._begun_is_answer = memoryview(line), True
        return self._begun

    def sent(self, count: int) -> None:
        """`count` bytes of the last chunk went."""
        self._begun = self._begun[count:]

    def give_up(self) -> None:
        """The reader is gone: what it did not get whole is missed."""
        self.missed += len(self._lines) + (bool(self._begun) and self._begun_is_answer)
        self._lines.clear()
        self._waiting_bytes = self._untold = 0
        self._begun = memoryview(b"")
