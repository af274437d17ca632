"""The queue of a sink and what a test does with it, by a clock of its own."""

from pathlib import Path

from edge.sinks.delivery.spool import Spool
from tests.support.answers import answer

HOUR_US = 3_600_000_000


class Clock:
    def __init__(self):
        self.now_us = 5_000_000

    def __call__(self):
        return self.now_us


def spool(clock, *, file=None, max_bytes=1 << 20, max_age_us=HOUR_US):
    return Spool(max_bytes=max_bytes, max_age_us=max_age_us, clock_us=clock, file=file)


def put(queue, *seqs):
    queue.put([answer(seq) for seq in seqs])


def seqs(queue, limit=10_000):
    return [int(p.id.rpartition("/")[2]) for p in queue.peek(limit=limit, max_bytes=1 << 30)]


def deliver(queue, count):
    queue.settle(queue.peek(limit=count, max_bytes=1 << 30))


def sight(queue):
    seen = queue.sight()
    assert seen.balance == 0, seen
    return seen


def broken_behind(path: Path, *, first_byte: int) -> None:
    """Nothing makes sense any more in 32 KiB of the file from there on."""
    with path.open("r+b") as file:
        file.seek(first_byte)
        file.write(b"\xff" * 8 * 4096)
