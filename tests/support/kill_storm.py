"""A house of real processes, killed at random; and what became of every answer that was seen."""

import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cloud.store.records import open_store
from tests.support.rig import Rig

Identity = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of the answers that an independent sink `seen`, by who gave them. `interrupted`: the gap ledger of the cloud says
    that nobody can tell what became of the frame."""

    seen: list[tuple[str, Identity]]
    records: list[Identity]
    interrupted: set[Identity]

    @classmethod
    def of(cls, seen: Iterable[tuple[bytes | str, Identity]], *, store_url: str) -> "Outcome":
        told = [(by.decode() if isinstance(by, bytes) else by, identity) for by, identity in seen]
        with open_store(store_url, read_only=True) as store:
            records = [(i.run.hex(), i.stream, i.seq) for i in store.identities()]
            asked = {identity for _, identity in told} | set(records)
            gaps = [gap for _, gap in store.gaps() if gap.reason == "interrupted"]
        spans: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for gap in gaps:
            spans.setdefault((gap.run.hex(), gap.stream), []).append((gap.first, gap.last))
        named = {
            (run, stream, seq)
            for run, stream, seq in asked
            if any(first <= seq <= last for first, last in spans.get((run, stream), ()))
        }
        return cls(seen=told, records=records, interrupted=named)

    @property
    def lost(self) -> set[Identity]:
        return {identity for _, identity in self.seen} - set(self.records)

    @property
    def lost_in_silence(self) -> set[Identity]:
        return self.lost - self.interrupted

    @property
    def near_lost(self) -> set[Identity]:
        """Near answers were committed before they were seen: nothing excuses the loss of one."""
        return {identity for by, identity in self.seen if by.startswith("n")} & self.lost

    @property
    def twice(self) -> int:
        counts = Counter(identity for _, identity in self.seen)
        return sum(n - 1 for n in counts.values()) + len(self.records) - len(set(self.records))

    @property
    def unexplained(self) -> set[Identity]:
        """Records of frames nobody saw answered, whose agent was not on its way out with them when it was killed: an
        answer given near is committed first and told then, so those after the last that was told may be such."""
        told: dict[tuple[str, str], int] = {}
        for by, (run, stream, seq) in self.seen:
            if by.startswith("n"):
                told[run, stream] = max(seq, told.get((run, stream), 0))
        unseen = set(self.records) - {identity for _, identity in self.seen} - self.interrupted
        return {(run, stream, seq) for run, stream, seq in unseen if seq <= told.get((run, stream), 0)}

    def as_dict(self) -> dict[str, Any]:
        by = Counter(name for name, _ in self.seen)
        return {
            "seen": len(self.seen),
            "seen_near": sum(n for name, n in by.items() if name.startswith("n")),
            "seen_far": sum(n for name, n in by.items() if name.startswith("f")),
            "records": len(self.records),
            "lost_and_named_interrupted": len(self.lost & self.interrupted),
            "lost_in_silence": len(self.lost_in_silence),
            "near_lost": len(self.near_lost),
            "twice": self.twice,
            "recorded_unseen": len(set(self.records) - {identity for _, identity in self.seen}),
            "recorded_unseen_unexplained": len(self.unexplained),
        }


def storm(r: Rig, kills: int, dice: random.Random, *, both_died_ms: list[float] | None = None) -> Outcome:
    """`kills` on agent, worker or both; then an agent that ends by itself, so that everything goes up. The moments at
    which both died (unix ms) are added to `both_died_ms`."""
    r.start_worker()
    r.start_agent()
    for _ in range(kills):
        r.wait_more(dice.randint(5, 40))
        victims = dice.choice(["agent", "worker", "worker", "both"])
        if victims == "both" and both_died_ms is not None:
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
    seen = [(str(a["answered_by"]), (a["run"], a["stream"], a["seq"])) for a in r.seen]
    return Outcome.of(seen, store_url=f"sqlite:///{r.root}/worker/records.db")
