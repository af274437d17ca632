"""A postman with a receiver that does as it is told."""

import threading

from edge.backoff import Backoff
from edge.sinks.delivery.postman import Postman
from edge.sinks.delivery.queue import QueueSink
from edge.sinks.delivery.spool import Spool
from pipelines.runtime import monotonic_us
from tests.support.answers import answer
from tests.support.eventually import eventually


class Scripted:
    """Takes everything, unless `judge` raises for the seqs of a delivery."""

    def __init__(self):
        self.judge = len
        self.tries = []
        self.taken = []
        self.tended = 0
        self.closed = False
        self.interrupted = threading.Event()

    def deliver(self, parcels):
        seqs = [int(p.id.rpartition("/")[2]) for p in parcels]
        self.tries.append(seqs)
        count = self.judge(seqs)
        self.taken += seqs[:count]
        return count

    def tend(self):
        self.tended += 1

    def interrupt(self):
        self.interrupted.set()

    def close(self):
        self.closed = True


class House:
    def __init__(self, *, batch=8, first_us=1_000):
        self.courier = Scripted()
        self.spool = Spool(max_bytes=1 << 20, max_age_us=3_600_000_000, clock_us=monotonic_us)
        self.postman = Postman(
            self.spool,
            self.courier,
            name="any",
            batch=batch,
            backoff=Backoff(first_us=first_us, most_us=first_us),
        )
        self.sink = QueueSink(spool=self.spool, postman=self.postman, durable=False)

    def give(self, *seqs):
        for seq in seqs:
            self.sink.write(answer(seq))
        self.sink.flush()

    def wait_taken(self, *seqs):
        eventually(lambda: self.courier.taken == list(seqs), what=f"{seqs}")


def failing(*kinds):
    """Raises each of `kinds` once, then takes all."""
    left = list(kinds)

    def judge(seqs):
        if left:
            raise left.pop(0)
        return len(seqs)

    return judge
