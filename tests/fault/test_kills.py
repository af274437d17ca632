"""One session with twenty kill −9 of agent and worker, chosen by a seed; and a hundred on outbox and store alone."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kill_storm import storm
from tests.support.rig import rig

KILLS = 20
GRACE_MS = 2_000  # a far answer goes to the store after a second without an ack; a busy machine takes its time to commit
KILLING_MS = 200


@pytest.mark.timeout(300)
def test_twenty_kills_lose_no_answer_silently_and_double_none(tmp_path: Path):
    both_died_ms: list[float] = []
    with rig(tmp_path, deadline="300ms") as r:
        outcome = storm(r, KILLS, random.Random(20), both_died_ms=both_died_ms)
        by_identity = {(a["run"], a["stream"], a["seq"]): a for a in r.seen}
    assert outcome.twice == 0
    # Only far answers may be gone, only when agent and worker died within the grace, and the gap ledger names
    # every one of them. A record nobody saw was on its way out when the agent was killed.
    assert outcome.lost_in_silence == set()
    for answer in (by_identity[i] for i in outcome.lost):
        assert answer["answered_by"] == "far"
        out_ms = answer["captured_unix_ms"] + answer["latency_ms"]
        assert any(-GRACE_MS <= out_ms - died_ms <= KILLING_MS for died_ms in both_died_ms), answer
    assert outcome.unexplained == set()


def test_kills_on_outbox_and_store_alone_lose_nothing_in_silence(tmp_path: Path):
    """In a process of its own: it forks, which a process with threads must not."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.crash", "--kills", "24"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
