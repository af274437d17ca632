"""kill −9 while a sink's queue is filled and emptied: what was reported kept is delivered, or there afterwards, in order."""

import random
from pathlib import Path

from edge.sinks.delivery.spool import Spool
from edge.sinks.delivery.spool_file import SpoolFile
from pipelines.runtime import monotonic_us
from tests.support.killed_child import reports_until_killed

HOUR_US = 3_600_000_000

# Keeps three for ever and delivers one or two, and names each seq on stdout only when its commit has returned.
CHILD = """
import sys
from pathlib import Path
from edge.sinks.delivery.spool import Spool
from edge.sinks.delivery.spool_file import SpoolFile
from pipelines.runtime import monotonic_us
from tests.support.answers import answer

def seq_of(parcel):
    return int(parcel.id.rpartition("/")[2])

spool = Spool(
    max_bytes=1 << 30, max_age_us=3_600_000_000, clock_us=monotonic_us, file=SpoolFile(Path(sys.argv[1]))
)
seq = int(sys.argv[2])
while True:
    spool.put([answer(n) for n in range(seq, seq + 3)])
    print("kept", seq, seq + 2, flush=True)
    seq += 3
    parcels = spool.peek(limit=1 + seq % 2, max_bytes=1 << 20)
    print("delivering", seq_of(parcels[0]), seq_of(parcels[-1]), flush=True)
    spool.settle(parcels)
"""


def test_everything_reported_kept_before_a_kill_is_delivered_or_there_after_it(tmp_path: Path) -> None:
    dice = random.Random(5)
    path = tmp_path / "webhook.db"
    kept: set[int] = set()
    delivered: list[int] = []
    for _ in range(6):
        for what, seqs in reports_until_killed(
            CHILD, str(path), str(max(kept, default=0) + 4), lines=dice.randint(3, 80)
        ):
            if what == "kept":
                kept.update(seqs)
            else:
                delivered += [seq for seq in seqs if seq in kept]
        assert kept

        file = SpoolFile(path)
        spool = Spool(max_bytes=1 << 30, max_age_us=HOUR_US, clock_us=monotonic_us, file=file)
        waiting = [int(p.id.rpartition("/")[2]) for p in spool.peek(limit=10**6, max_bytes=1 << 40)]
        assert spool.sight().balance == 0
        spool.close()
        assert waiting == sorted(set(waiting))
        assert kept <= {*waiting, *delivered}
        # In order, and again only what was under way when it was killed.
        assert list(dict.fromkeys(delivered)) == sorted(set(delivered))
        assert len(delivered) - len(set(delivered)) <= 2 * 6
        assert len({*delivered} & {*waiting}) <= 2
