"""Backfill beside live traffic: how much of the spare bandwidth a backlog gets, and what it costs live answers.

A whole agent and a whole worker over `nearfar relay` (8 Mbit/s shared by both lanes, round trip 30 ms). Runs with an empty
outbox and with a backlog that lasts the whole run take turns; on-time far answers are compared. Spare is the link's rate
less what the same agent sends without a backlog. Then half an hour without a worker at 15 fps, in virtual time.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from edge.identity import StateDir
from edge.outbox.memory import Held
from edge.outbox.sqlite import SqliteOutbox
from edge.outbox.store import Changes
from nearfar.relay import Relay
from pipelines import runtime
from pipelines.frame import FrameId, new_run
from pipelines.result import AnsweredBy, Detections, Record, Status
from tests.bench.report import Report, run
from tests.support.outage import Outage, long_outage
from tests.support.rig import Rig, rig

RATE_MBIT = 8.0
RTT_MS = 30.0
FPS = 20
COST_POINTS = 1.0
SHARE = 0.5
BOXES = 120
AT_ONCE = 500


def backlog(path: Path, size_bytes: int) -> int:
    """An outbox at `path` of records that do not compress, `size_bytes` of them; how many."""
    held = StateDir(path)
    held.identity("rig-gateway")
    held.close()
    store = SqliteOutbox(path / "outbox.db")
    store.open(0)
    dice = np.random.default_rng(1)
    of_run, seq, filled = new_run(), 0, 0
    while filled < size_bytes:
        entries = []
        for _ in range(AT_ONCE):
            seq += 1
            boxes = dice.random((BOXES, 4), np.float32) * 640
            found = Detections(boxes, dice.random(BOXES, np.float32), np.zeros(BOXES, np.uint16), ("thing",))
            record = Record(
                id=FrameId("rig-gateway", of_run, "cam", seq),
                answered_by=AnsweredBy.NEAR,
                status=Status.OK,
                detections=found,
            )
            entries.append(Held(record, 0).entry(0))
        filled += sum(len(e.data) for e in entries)
        store.commit(Changes(entries=entries), 0)
    store.close(0)
    return seq


@contextmanager
def over_relay(root: Path) -> Iterator[Rig]:
    with rig(root, deadline="150ms", fps=FPS) as made:
        relay = Relay("127.0.0.1:0", f"127.0.0.1:{made.port}")
        relay.start()
        relay.set(rtt_ms=RTT_MS, rate_mbit=RATE_MBIT)
        made.options["link_port"] = int(relay.address.rpartition(":")[2])
        try:
            yield made
        finally:
            relay.stop()


def one_run(root: Path, frames: int, backlog_bytes: int) -> dict[str, Any]:
    """A run of `frames`; its on-time far share and what went up."""
    root.mkdir()
    if backlog_bytes:
        backlog(root / "gateway", backlog_bytes)
    with over_relay(root) as made:
        made.start_worker()
        made.start_agent("--frames", str(frames), "--set", "drain=0s")
        begun_s = time.monotonic()
        made.agent.popen.wait(frames / FPS + 60)  # type: ignore[union-attr]
        took_s = time.monotonic() - begun_s
        made.agent.end()  # type: ignore[union-attr]
        summary = json.loads((made.run_dir / "summary.json").read_text())
        lines = [json.loads(line) for line in (made.run_dir / "frames.jsonl").open()]
        made.stop_worker()
    paced = [x for x in lines if x["outcome"] == "answered"][FPS:]  # the first second finds its link
    far = [x["answered_by"] == "far" and x["on_time"] for x in paced]
    return {
        "frames": len(paced),
        "far_on_time": sum(far),
        "on_time": sum(x["on_time"] for x in paced),
        "seconds": round(took_s, 1),
        "bulk_bytes": summary["outbox"]["bytes_sent"],
        "all_bytes": summary["links"]["cable"]["bytes_up"],
        "left": summary["outbox"]["pending"],
        "adds_up": summary["outbox"]["adds_up"] and summary["frames"]["pending"] == 0,
    }


def compared(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    """The pairs as one: points of on-time far answers lost, and the share of the spare bandwidth used."""
    frames = sum(b["frames"] for _, b in pairs)
    without, with_ = (
        100 * sum(p[i]["far_on_time"] for p in pairs) / sum(p[i]["frames"] for p in pairs) for i in (0, 1)
    )
    live_bytes_per_s = sum(a["all_bytes"] for a, _ in pairs) / sum(a["seconds"] for a, _ in pairs)
    spare = RATE_MBIT * 1e6 / 8 - live_bytes_per_s
    bulk = sum(b["bulk_bytes"] for _, b in pairs) / sum(b["seconds"] for _, b in pairs)
    return {
        "paired_frames": frames,
        "far_on_time_without_pct": round(without, 2),
        "far_on_time_with_pct": round(with_, 2),
        "cost_points": round(without - with_, 2),
        "live_kb_per_s": round(live_bytes_per_s / 1000, 1),
        "spare_kb_per_s": round(spare / 1000, 1),
        "backfill_kb_per_s": round(bulk / 1000, 1),
        "share_of_spare": round(bulk / spare, 3),
        "backlog_outlasted_the_runs": all(b["left"] > 0 for _, b in pairs),
        "laws_held": all(x["adds_up"] for p in pairs for x in p),
    }


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Pairs of runs without and with a backlog; an outage of half an hour."""
    pairs, frames = (1, 20 * FPS) if arguments.quick else (6, 900)
    runtime.tune()
    found = []
    enough = int(RATE_MBIT * 1e6 / 8 * (frames / FPS + 10))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(pairs):
            made = [one_run(Path(folder) / f"{number}-{size}", frames, size) for size in (0, enough)]
            found.append((made[0], made[1]))
    figures = compared(found)
    report.figures["beside live traffic"] = figures | {"runs": [list(pair) for pair in found]}
    report.at_least("share of the spare bandwidth", SHARE, figures["share_of_spare"])
    report.at_most("cost in points of on-time far answers", COST_POINTS, figures["cost_points"])
    report.at_least("laws held", 1, int(figures["laws_held"]))
    outage(report, 5 if arguments.quick else 30)


def outage(report: Report, minutes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        seen: Outage = long_outage(Path(folder), minutes=minutes, fps=15)
    report.figures["outage"] = seen.as_dict()
    report.at_most("outage: answers lost", 0, seen.lost)
    report.at_most("outage: answers that came twice", 0, seen.twice)
    report.at_most("outage: memory, MB after less MB after a tenth of it", 2.0, seen.grown_mb)


if __name__ == "__main__":
    run("backfill", measure)
