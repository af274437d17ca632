"""A program that reads answers from a socket, and answers that fill it."""

import contextlib
import json
import os
import socket

from tests.support.answers import answer
from tests.support.eventually import eventually


class Clock:
    def __init__(self):
        self.now_us = 1_000_000

    def __call__(self):
        return self.now_us


class Reader:
    """A program next door."""

    def __init__(self, path, *, blocking=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.setblocking(blocking)
        self.socket.connect(os.fspath(path))
        self.socket.settimeout(5)
        self._data = bytearray()
        self.lines = []

    def read(self):
        """Everything that is there now; True at the end of the connection."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while data := self.socket.recv(1 << 20):
                self._data += data
                *whole, rest = bytes(self._data).split(b"\n")
                self._data = bytearray(rest)
                self.lines += [json.loads(line) for line in whole]
            return True
        return False

    def seqs(self):
        self.read()
        return [line["seq"] for line in self.lines if "seq" in line]

    def close(self):
        self.socket.close()


def fat_answer(seq):
    return answer(seq, reason="x" * 10_000)


def wait_seqs(reader, count):
    """Until `reader` has got answers 1 to `count`."""
    eventually(lambda: reader.seqs() == [*range(1, count + 1)], what=f"{count} answers")


def fill(sink, first=1):
    """Answers until a reader that takes nothing misses some; the last seq."""
    seq = first
    while sink.missed == 0:
        sink.write(fat_answer(seq))
        seq += 1
        assert seq < first + 1000
    return seq - 1
