"""One session with twenty kill −9 of agent and worker, chosen by a seed."""

import random
import time
from pathlib import Path

from tests.support.rig import rig

KILLS = 20
GRACE_MS = 1_200  # a far answer is in the store after a second without an ack
KILLING_MS = 200


def test_twenty_kills_lose_no_answer_silently_and_double_none(tmp_path: Path):
    dice = random.Random(20)
    both_died_ms: list[float] = []
    with rig(tmp_path, deadline="300ms") as r:
        r.start_worker()
        r.start_agent()
        for _ in range(KILLS):
            r.wait_more(dice.randint(5, 40))
            victims = dice.choice(["agent", "worker", "worker", "both"])
            if victims == "both":
                both_died_ms.append(time.time() * 1000)
            if victims != "worker":
                r.kill_agent()
            if victims != "agent":
                assert r.worker is not None
                r.worker.kill()
                r.start_worker()
            if victims != "worker":
                r.start_agent()
        r.kill_agent()
        r.start_agent("--frames", "50")
        r.finish_agent()
        r.stop_worker()
        seen, records = r.seen_identities(), r.records()
        assert len(set(records)) == len(records)
        assert len(set(seen)) == len(seen)
        interrupted = r.interrupted()
        lost = set(seen) - set(records)
        # Only far answers may be gone, only when agent and worker died within the grace, and the gap
        # ledger names every one of them.
        by_identity = {(a["run"], a["stream"], a["seq"]): a for a in r.seen}
        for answer in (by_identity[i] for i in lost):
            assert answer["answered_by"] == "far"
            out_ms = answer["captured_unix_ms"] + answer["latency_ms"]
            assert any(-GRACE_MS <= out_ms - died_ms <= KILLING_MS for died_ms in both_died_ms), answer
        assert all(interrupted(i) for i in lost)
        # A record nobody saw was on its way out when the agent was killed.
        assert all(interrupted(i) for i in set(records) - set(seen))
