"""kill −9 while the outbox writes: everything it reported committed is there afterwards."""

import random
from pathlib import Path

import pytest

from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.store import Changes, Watermark
from tests.support.killed_child import reports_until_killed
from tests.support.outboxes import RUN

# Appends for ever, acknowledges some, and names each seq on stdout only when its commit has returned.
CHILD = """
import sys, time
from pathlib import Path
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.store import Changes, Watermark
from tests.support.outboxes import RUN, entry

store = SqliteOutbox(Path(sys.argv[1]), durability=sys.argv[2])
now_us = lambda: time.monotonic_ns() // 1000
store.open(now_us())
seq = int(sys.argv[3])
while True:
    group = [entry(n, size=700) for n in range(seq, seq + 3)]
    mark = Watermark(run=RUN, stream="door", reserved=seq + 256, settled=seq + 2)
    store.commit(Changes(entries=group, marks=[mark]), now_us())
    store.sync()
    print("committed", seq, seq + 2, flush=True)
    seq += 3
    oldest = store.peek(limit=1, max_bytes=1)[0]
    store.commit(Changes(acknowledged=[oldest.number]), now_us())
    print("acked", oldest.key[2], oldest.key[2], flush=True)
"""


@pytest.mark.parametrize("durability", ["process", "power"])
def test_everything_reported_committed_before_a_kill_is_there_after_it(
    tmp_path: Path, durability: str
) -> None:
    dice = random.Random(20)
    path = tmp_path / "outbox.db"
    committed: set[int] = set()
    acked: set[int] = set()
    first = 1
    for _ in range(5):
        for what, seqs in reports_until_killed(
            CHILD, str(path), durability, str(first), lines=dice.randint(3, 60)
        ):
            (committed if what == "committed" else acked).update(seqs)
        assert committed

        store = SqliteOutbox(path)
        store.open(0)
        there = {s.key[2] for s in store.peek(limit=10**6, max_bytes=1 << 40)}
        ledger = store.ledger()
        (mark,) = store.runs()
        # At most the one transaction under way at the kill is unknown: three appended, or one acknowledged.
        missing = committed - acked - there
        assert missing <= {min(committed - acked)}
        extra = there - committed
        assert len(extra) <= 3
        assert not acked & there
        assert ledger.balance == 0
        assert ledger.acked == len(acked) + len(missing)
        assert ledger.committed == len(committed) + len(extra)
        assert (ledger.set_aside, ledger.set_aside_files) == (0, 0)
        assert mark.run == RUN
        assert mark.settled >= max(committed)
        store.commit(Changes(marks=[Watermark(run=RUN, stream="door", reserved=0, settled=0)]), 0)
        store.close(0)
        committed |= extra
        acked |= missing
        first = max(committed) + 1
