"""Any history of a sink's queue, on disk with faults and kills, against a list."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edge.sinks.delivery.spool import Spool
from edge.sinks.delivery.spool_file import SpoolFile
from pipelines.errors import Retryable
from tests.support.answers import answer

MAX_BYTES = 8_000
MAX_AGE_US = 50_000_000


class MoodyFile(SpoolFile):
    """Takes no change while `stuck`."""

    stuck = False

    def commit(self, **change):
        if self.stuck:
            raise Retryable("disk full")
        return super().commit(**change)


class SpoolMachine(RuleBasedStateMachine):
    """A kill drops the object; what only memory had is then gone, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._dir = tempfile.TemporaryDirectory()
        self.path = Path(self._dir.name) / "q.db"
        self.now_us = 0
        self.seq = 0
        self.delivered: list[int] = []
        self.begin()

    def begin(self) -> None:
        self.file = MoodyFile(self.path)
        self.spool = Spool(
            max_bytes=MAX_BYTES, max_age_us=MAX_AGE_US, clock_us=lambda: self.now_us, file=self.file
        )

    def numbers(self) -> list[int]:
        return [p.number for p in self.spool.peek(limit=10_000, max_bytes=1 << 30)]

    def waiting(self) -> list[int]:
        found = self.spool.peek(limit=10_000, max_bytes=1 << 30)
        return [int(p.id.rpartition("/")[2]) for p in found]

    @rule(count=st.integers(1, 9))
    def put(self, count: int) -> None:
        before = self.waiting()
        fresh = list(range(self.seq + 1, self.seq + 1 + count))
        self.seq += count
        self.spool.put([answer(seq) for seq in fresh])
        after = self.waiting()
        assert after[-1] == self.seq
        if not self.file.stuck:
            assert after == [*before, *fresh][-len(after) :]

    @rule(count=st.integers(1, 9), refused=st.booleans())
    def settle(self, count: int, *, refused: bool) -> None:
        parcels = self.spool.peek(limit=count, max_bytes=1 << 30)
        seqs = [int(p.id.rpartition("/")[2]) for p in parcels]
        before = self.waiting()
        self.spool.settle(parcels, refused="http_400" if refused else "")
        assert self.waiting() == before[len(seqs) :]
        self.delivered += seqs

    @rule(seconds=st.integers(1, 40))
    def time_passes(self, seconds: int) -> None:
        self.now_us += seconds * 1_000_000

    @rule(stuck=st.booleans())
    def disk(self, *, stuck: bool) -> None:
        self.file.stuck = stuck

    @rule()
    def killed(self) -> None:
        before = self.waiting()
        all_on_disk = [p.number for p in self.file.peek(after=0, limit=10_000)] == self.numbers()
        self.file.let_go()
        self.begin()
        found = self.waiting()
        if all_on_disk:
            assert found == before
        else:  # what only memory knew: some are gone, some come again
            assert set(found) <= {*before, *self.delivered}

    @invariant()
    def everything_is_counted(self) -> None:
        assert self.spool.sight().balance == 0

    @invariant()
    def order_holds(self) -> None:
        found = self.waiting()
        assert found == sorted(set(found))

    def teardown(self) -> None:
        self.spool.close()
        assert self.spool.sight().balance == 0
        self._dir.cleanup()


SpoolMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSpool = SpoolMachine.TestCase
