"""Backfill beside live traffic: how much of the spare bandwidth a backlog gets, and what it costs live answers.

A whole agent and a whole worker over `nearfar relay` (8 Mbit/s shared by both lanes, round trip 30 ms). Runs with an
empty outbox, with a backlog of records and with one of pictures, each of which lasts the whole run, take turns;
on-time far answers are compared. Spare is the link's rate less what the same agent sends without a backlog. Then half
an hour without a worker at 15 fps, in virtual time. With `--netlab PROFILE` (root and ../shared) the link is an
emulated one.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.relay import Relay
from pipelines import runtime
from tests.bench.backlog import Batch, fill, pictures, records
from tests.bench.report import Report, run
from tests.support.outage import Outage, long_outage
from tests.support.rig import Rig, rig

RATE_MBIT = 8.0
RTT_MS = 30.0
FPS = 30
ROUNDS = 5
FRAMES = 1090
WARM_UP_S = 2
COST_POINTS = 1.0
SHARE = 0.5
RESAMPLED = 2000
NETLAB = Path(__file__).parents[3] / "shared" / "netlab"
BACKLOGS: dict[str, Batch | None] = {"nothing": None, "records": records, "pictures": pictures}
KEEPS = "store: {{payloads: {{path: {root}/pictures, keep: none}}}}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`far_by_s`: of each second's frames, how many, and how many were answered far and on time."""

    far_by_s: Sequence[tuple[int, int]]
    on_time: int
    seconds: float
    bulk_bytes: int
    all_bytes: int
    left: int
    adds_up: bool

    @property
    def frames(self) -> int:
        return sum(n for n, _ in self.far_by_s)

    @property
    def far_on_time(self) -> int:
        return sum(n for _, n in self.far_by_s)

    def as_dict(self) -> dict[str, Any]:
        names = ("frames", "far_on_time", "on_time", "bulk_bytes", "all_bytes", "left", "adds_up")
        return {name: getattr(self, name) for name in names} | {"seconds": round(self.seconds, 1)}


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


@contextmanager
def over_netlab(root: Path, link: Any) -> Iterator[Rig]:
    made = Rig(
        root,
        deadline="300ms",
        fps=FPS,
        worker_host=link.cloud_addr,
        inside={side: ["ip", "netns", "exec", getattr(link, f"{side}_ns")] for side in ("edge", "cloud")},
    )
    try:
        yield made
    finally:
        made.close()


def one_run(root: Path, frames: int, filled: Path | None, *, link: Any = None) -> Run:
    """A run of `frames` that begins with a copy of the state `filled`; its on-time far answers and what went up."""
    root.mkdir()
    if filled is not None:
        shutil.copytree(filled, root / "gateway")
    with over_relay(root) if link is None else over_netlab(root, link) as made:
        made.options["worker_extra"] = KEEPS.format(root=root)
        made.start_worker()
        made.start_agent("--frames", str(frames), "--set", "drain=0s")
        assert made.agent is not None
        begun_s = time.monotonic()
        made.agent.popen.wait(frames / FPS + 60)
        took_s = time.monotonic() - begun_s
        made.agent.end()
        summary = json.loads((made.run_dir / "summary.json").read_text())
        with (made.run_dir / "frames.jsonl").open() as file:
            lines = [json.loads(line) for line in file]
        made.stop_worker()
    paced = [x for x in lines if x["outcome"] == "answered" and x["seq"] > WARM_UP_S * FPS]
    far: dict[int, list[bool]] = {}
    for line in paced:
        far.setdefault(line["seq"] // FPS, []).append(line["answered_by"] == "far" and line["on_time"])
    outbox = summary["outbox"]
    return Run(
        far_by_s=[(len(second), sum(second)) for second in far.values()],
        on_time=sum(x["on_time"] for x in paced),
        seconds=took_s,
        bulk_bytes=outbox["bytes_sent"],
        all_bytes=summary["links"]["cable"]["bytes_up"],
        left=outbox["pending"] + outbox["payloads_pending"],
        adds_up=outbox["adds_up"] and summary["frames"]["pending"] == 0,
    )


def cost_points(without: Sequence[Run], with_: Sequence[Run]) -> tuple[float, tuple[float, float]]:
    """Points of on-time far answers lost, and where 95 of 100 resamplings by seconds put them."""
    dice = np.random.default_rng(1)
    drawn = []
    lost = 0.0
    for sign, runs in ((1, without), (-1, with_)):
        seconds = np.array([second for r in runs for second in r.far_by_s])
        lost += sign * 100 * seconds[:, 1].sum() / seconds[:, 0].sum()
        chosen = seconds[dice.integers(0, len(seconds), (RESAMPLED, len(seconds)))].sum(axis=1)
        drawn.append(sign * 100 * chosen[:, 1] / chosen[:, 0])
    low, high = np.quantile(sum(drawn), (0.025, 0.975))
    return float(lost), (float(low), float(high))


def compared(without: Sequence[Run], with_: Sequence[Run], *, rate_mbit: float) -> dict[str, Any]:
    """Points of on-time far answers lost, and the share of the spare bandwidth used."""
    lost, (low, high) = cost_points(without, with_)
    live_bytes_per_s = sum(r.all_bytes for r in without) / sum(r.seconds for r in without)
    spare = rate_mbit * 1e6 / 8 - live_bytes_per_s
    bulk = sum(r.bulk_bytes for r in with_) / sum(r.seconds for r in with_)
    return {
        "paired_frames": min(sum(r.frames for r in runs) for runs in (without, with_)),
        "far_on_time_without_pct": round(_far_pct(without), 2),
        "far_on_time_with_pct": round(_far_pct(with_), 2),
        "cost_points": round(lost, 2),
        "cost_points_95": [round(low, 2), round(high, 2)],
        "live_kb_per_s": round(live_bytes_per_s / 1000, 1),
        "spare_kb_per_s": round(spare / 1000, 1),
        "backfill_kb_per_s": round(bulk / 1000, 1),
        "share_of_spare": round(bulk / spare, 3),
        "backlog_outlasted_the_runs": all(r.left > 0 for r in with_),
        "laws_held": all(r.adds_up for r in (*without, *with_)),
    }


def _far_pct(runs: Sequence[Run]) -> float:
    return 100 * sum(r.far_on_time for r in runs) / sum(r.frames for r in runs)


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Runs without and with a backlog; an outage of half an hour."""
    rounds, frames = (1, 12 * FPS) if arguments.quick else (ROUNDS, FRAMES)
    runtime.tune()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.netlab:
            sys.path.insert(0, str(NETLAB))
            from netlab import Link  # type: ignore[import-not-found]  # noqa: PLC0415

            with Link(arguments.netlab, cc=arguments.cc or "cubic") as link:
                profile = json.loads((NETLAB / "profiles" / f"{arguments.netlab}.json").read_text())
                beside(report, Path(folder), rounds, frames, rate_mbit=profile["up"]["rate_mbit"], link=link)
        else:
            beside(report, Path(folder), rounds, frames, rate_mbit=RATE_MBIT)
    outage(report, 5 if arguments.quick else 30)


def beside(
    report: Report, folder: Path, rounds: int, frames: int, *, rate_mbit: float, link: Any = None
) -> None:
    """Runs in turn, so that whatever else the machine does meets all alike."""
    found: dict[str, list[Run]] = {name: [] for name in BACKLOGS}
    filled: dict[str, Path | None] = {"nothing": None}
    for name, batch in BACKLOGS.items():
        if batch is not None:
            filled[name] = folder / name
            fill(folder / name, int(rate_mbit * 1e6 / 8 * (frames / FPS + 3)), batch)
    for number in range(rounds):
        for name in BACKLOGS:
            found[name].append(one_run(folder / f"{number}-{name}", frames, filled[name], link=link))
            shutil.rmtree(folder / f"{number}-{name}")
    report.figures["runs"] = {name: [r.as_dict() for r in runs] for name, runs in found.items()}
    for name in ("pictures", "records"):
        figures = compared(found["nothing"], found[name], rate_mbit=rate_mbit)
        report.figures[f"a backlog of {name}"] = figures
        report.at_least(f"{name}: share of the spare bandwidth", SHARE, figures["share_of_spare"])
        report.at_most(f"{name}: points of on-time far answers lost", COST_POINTS, figures["cost_points"])
        report.at_least(
            f"{name}: laws held, and the backlog outlasted the runs",
            1,
            int(figures["laws_held"] and figures["backlog_outlasted_the_runs"]),
        )


def outage(report: Report, minutes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        seen: Outage = long_outage(Path(folder), minutes=minutes, fps=15)
    report.figures["outage"] = seen.as_dict()
    report.at_most("outage: answers lost", 0, seen.lost)
    report.at_most("outage: answers that came twice", 0, seen.twice)
    report.at_most("outage: memory, MB after less MB after a tenth of it", 2.0, seen.grown_mb)


if __name__ == "__main__":
    run(
        "backfill",
        measure,
        values={
            "netlab": "the profile of an emulated link, instead of the relay",
            "cc": "its congestion control",
        },
    )
