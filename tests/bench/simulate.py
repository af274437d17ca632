"""Policies over every trace there is, against what could be had with the future known.

    python -m tests.bench.vtest_accuracies      # once, in parts, until it says where the file is
    python -m tests.bench.simulate --json -     # --part: stop after 50 s, the next call goes on
    python -m tests.bench.simulate --deadline 75

Five seeds a trace; per-frame detections of YOLOX near@224, far@512 at eight rungs, against YOLOX@640 on raw frames.
Gateway and worker as in an LTE deployment: 15 fps, deadline 100 ms or 75, near 35-45 ms, worker 18-22 ms, round trip 30 ms
where the trace says nothing. Results are kept beside the accuracies under a hash of the code they come from.
"""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from edge.scheduling.policies import POLICIES
from edge.scheduling.settings import StreamSettings
from nearfar.simulation.accuracies import Accuracies, read_accuracies
from nearfar.simulation.comparison import BOUNDS
from nearfar.simulation.comparison import run as run_policy
from nearfar.simulation.dice import Durations
from nearfar.simulation.recipe import Setup, only
from nearfar.simulation.run import settings_for
from nearfar.simulation.scenario import Scenario
from nearfar.simulation.summary import summarise
from nearfar.simulation.traces import read_trace
from tests.bench.report import Report, run
from tests.bench.vtest_accuracies import SHARED, cache_file

ROOT = Path(__file__).parents[2]
SEEDS = 5
FRAMES = 1500
FPS = 15.0
DEADLINE_MS = "100"
NEAR_US, WORKER_US, RTT_US = 40_000, 20_000, 30_000
PART_S = 50.0
FREE, FIXED = "deadline, bytes free", "far_only, best rung"
CHOOSING_FRAMES = 500
T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
"""Student's t by degrees of freedom."""
KEPT = ("on_time", "f1", "far", "kb_per_frame", "near_ms_per_frame", "staleness_p95_ms", "p_error")
ALSO = ("fall_back_ms", "far_again_ms", "missed", "shed")


def traces(*, quick: bool) -> list[Path]:
    """Those of ../shared/data first: the bars are about them."""
    data = sorted((SHARED / "data/traces").glob("*.up"))
    lab = [
        *sorted((SHARED / "netlab/traces").glob("*.trace")),
        *sorted((SHARED / "netlab/schedules").glob("*.json")),
    ]
    return data if quick else [*data, *lab]


def setup_for(path: Path, accuracies: Accuracies, *, seed: int, frames: int, deadline_us: int) -> Setup:
    scenario = Scenario(
        links=(read_trace(path, rtt_us=RTT_US),),
        accuracies=accuracies,
        near=Durations.spread(NEAR_US, share=0.125),
        worker=Durations.spread(WORKER_US, share=0.1),
        deadline_us=deadline_us,
        fps=FPS,
        frames=frames,
        seed=seed,
    )
    streams = {"camera": StreamSettings(pixels=512 * 384)}
    return Setup(
        scenario=scenario, settings=settings_for(scenario), streams=streams, policies=tuple(POLICIES)
    )


def best_fixed_rung(path: Path, accuracies: Accuracies, deadline_us: int) -> int:
    """The rung far_only does best with on this trace."""
    f1 = []
    for rung in accuracies.ladder:
        setup = setup_for(
            path, only(accuracies, (rung,)), seed=SEEDS, frames=CHOOSING_FRAMES, deadline_us=deadline_us
        )
        f1.append(summarise(run_policy(setup, "far_only"), setup.scenario).f1)
    return f1.index(max(f1))


def runs(
    path: Path, accuracies: Accuracies, seed: int, *, frames: int, rung: int, deadline_us: int
) -> dict[str, dict[str, Any]]:
    """The kept figures of every policy and bound, of far_only at its best single rung, and of deadline where bytes
    cost nothing: what the byte price saves and what it costs."""
    out = {}
    setup = setup_for(path, accuracies, seed=seed, frames=frames, deadline_us=deadline_us)
    for policy in (*POLICIES, *BOUNDS):
        begun_s = time.process_time()
        outcome = run_policy(setup, policy)
        took_s = time.process_time() - begun_s
        summary = summarise(outcome, setup.scenario).as_dict()
        out[policy] = {name: summary[name] for name in (*KEPT, *ALSO)} | {"fps": frames / took_s}
    free = replace(setup, settings=replace(setup.settings, byte_price=0.0))
    summary = summarise(run_policy(free, "deadline"), setup.scenario).as_dict()
    out[FREE] = {name: summary[name] for name in (*KEPT, *ALSO)}
    fixed = setup_for(
        path, only(accuracies, (accuracies.ladder[rung],)), seed=seed, frames=frames, deadline_us=deadline_us
    )
    summary = summarise(run_policy(fixed, "far_only"), fixed.scenario).as_dict()
    out[FIXED] = {name: summary[name] for name in (*KEPT, *ALSO)}
    return out


class Results:
    """What was simulated with this code and these accuracies, kept line by line."""

    def __init__(self, accuracies: Path, *, frames: int, deadline_us: int) -> None:
        made_of = hashlib.sha256(accuracies.read_bytes() + f"{frames} {deadline_us}".encode())
        for folder in ("edge/scheduling", "cloud/scheduling", "nearfar/simulation"):
            for source in sorted((ROOT / folder).glob("*.py")):
                made_of.update(source.read_bytes())
        self._path = accuracies.with_name(f"simulate-{made_of.hexdigest()[:12]}.jsonl")
        self.rows: dict[tuple[str, int], dict[str, Any]] = {}
        self.rungs: dict[str, int] = {}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                self._take(json.loads(line))

    def keep(self, row: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        self._take(row)

    def _take(self, row: dict[str, Any]) -> None:
        if "rung" in row:
            self.rungs[row["trace"]] = row["rung"]
        else:
            self.rows[row["trace"], row["seed"]] = row["runs"]


def simulate_all(
    results: Results,
    paths: Sequence[Path],
    accuracies: Accuracies,
    *,
    seeds: int,
    frames: int,
    deadline_us: int,
) -> Iterator[None]:
    """Yields after each piece of work."""
    for path in paths:
        if path.stem not in results.rungs:
            results.keep({"trace": path.stem, "rung": best_fixed_rung(path, accuracies, deadline_us)})
            yield
        for seed in range(seeds):
            if (path.stem, seed) not in results.rows:
                done = runs(
                    path,
                    accuracies,
                    seed,
                    frames=frames,
                    rung=results.rungs[path.stem],
                    deadline_us=deadline_us,
                )
                results.keep({"trace": path.stem, "seed": seed, "runs": done})
                yield


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean and half width of the 95 % confidence interval."""
    half = T_975[len(values) - 1] * stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return {"mean": round(fmean(values), 4), "ci95": round(half, 4)}


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Policies over traces in virtual time."""
    accuracies_path = cache_file()
    if not accuracies_path.exists():
        sys.exit("make the accuracies first: python -m tests.bench.vtest_accuracies")
    accuracies = read_accuracies(accuracies_path)
    seeds, frames = (1, 400) if arguments.quick else (SEEDS, FRAMES)
    paths = traces(quick=arguments.quick)
    deadline_us = int(arguments.deadline or DEADLINE_MS) * 1000
    results = Results(accuracies_path, frames=frames, deadline_us=deadline_us)
    until_s = time.monotonic() + PART_S
    for _ in simulate_all(results, paths, accuracies, seeds=seeds, frames=frames, deadline_us=deadline_us):
        if arguments.part and time.monotonic() > until_s:
            sys.exit(f"{len(results.rows)} of {len(paths) * seeds} done: call again")
    judge(report, results, [path.stem for path in paths], seeds=seeds)
    report.figures["ladder"] = [
        f"q{rung.quality} scale {rung.scale:g}: F1 {rung.accuracy}" for rung in accuracies.ladder
    ]
    report.figures["near"] = round(accuracies.near.f1, 4)


def judge(report: Report, results: Results, names: Sequence[str], *, seeds: int) -> None:
    """Figures by trace; the bars about bytes and the gap are over those of ../shared/data."""
    data = {path.stem for path in traces(quick=True)}
    closed: dict[str, dict[str, float]] = {bound: {} for bound in BOUNDS}
    freely: dict[str, dict[str, float]] = {bound: {} for bound in BOUNDS}
    for name in names:
        rows = [results.rows[name, seed] for seed in range(seeds)]
        report.figures[name] = {
            policy: {
                figure: spread([row[policy][figure] for row in rows])
                for figure in KEPT
                if all(row[policy][figure] is not None for row in rows)
            }
            | {
                figure: round(fmean(values), 3)
                for figure in ALSO
                if (values := [row[policy][figure] for row in rows if row[policy][figure] is not None])
            }
            for policy in rows[0]
        }
        f1 = {policy: fmean(row[policy]["f1"] for row in rows) for policy in rows[0]}
        kb = {policy: fmean(row[policy]["kb_per_frame"] for row in rows) for policy in rows[0]}
        for bound in BOUNDS:
            gap = f1[bound] - f1["near_only"]
            closed[bound][name] = (f1["deadline"] - f1["near_only"]) / gap if gap > 0 else 1.0
            freely[bound][name] = (f1[FREE] - f1["near_only"]) / gap if gap > 0 else 1.0
        others = [policy for policy in POLICIES if policy != "deadline"]
        worst = min(row["oracle"]["f1"] - row[policy]["f1"] for row in rows for policy in POLICIES)
        report.at_least(f"{name}: oracle − best policy, F1, worst seed", 0.0, worst)
        on_time = [row["deadline"]["on_time"] for row in rows]
        best = max(f1[policy] for policy in others)
        report.at_least(f"{name}: deadline − best other policy, F1", 0.0, f1["deadline"] - best)
        if name in data:
            report.at_most(
                f"{name}: bytes of deadline / far_only at its best rung", 1.0, kb["deadline"] / kb[FIXED]
            )
            report.at_least(
                f"{name}: F1 of deadline − far_only at its best rung", 0.0, f1["deadline"] - f1[FIXED]
            )
        report.at_least(f"{name}: deadline on time", 0.999, fmean(on_time))
    for bound in BOUNDS:
        report.figures[f"gap closed, {bound}"] = {
            name: round(share, 3) for name, share in closed[bound].items()
        }
        report.figures[f"gap closed with bytes free, {bound}"] = {
            name: round(share, 3) for name, share in freely[bound].items()
        }
    mean = fmean(closed["oracle"][name] for name in closed["oracle"] if name in data)
    report.at_least("share of the gap near_only to oracle closed, mean over traces", 0.75, mean)
    everywhere = fmean(closed["oracle"].values())
    report.figures["share of the gap closed, mean over all traces"] = round(everywhere, 3)
    speeds = [row["deadline"]["fps"] for row in results.rows.values()]
    report.at_least("frames simulated per CPU second, median", 2000, sorted(speeds)[len(speeds) // 2])


if __name__ == "__main__":
    run(
        "simulate",
        measure,
        values={"deadline": f"ms; default {DEADLINE_MS}"},
        part="stop after 50 s; the next call goes on where it stopped",
    )
