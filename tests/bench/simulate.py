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
from nearfar.simulation.link.traces import read_trace
from nearfar.simulation.outcome import Outcome
from nearfar.simulation.recipe import Setup, only
from nearfar.simulation.run import settings_for
from nearfar.simulation.scenario import Scenario
from nearfar.simulation.summary import summarise
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


def bounds(setup: Setup) -> dict[str, dict[str, Any]]:
    """The kept figures of what could be had with the future known, whatever the scheduler does."""
    return {bound: _kept(run_policy(setup, bound), setup) for bound in BOUNDS}


def runs(setup: Setup, fixed: Setup) -> dict[str, dict[str, Any]]:
    """The kept figures of every policy, of far_only at its best single rung (`fixed`), and of deadline where bytes cost
    nothing: what the byte price saves and what it costs."""
    out = {}
    for policy in POLICIES:
        begun_s = time.process_time()
        outcome = run_policy(setup, policy)
        took_s = time.process_time() - begun_s
        out[policy] = _kept(outcome, setup) | {"fps": setup.scenario.frames / took_s}
    free = replace(setup, settings=replace(setup.settings, byte_price=0.0))
    out[FREE] = _kept(run_policy(free, "deadline"), setup)
    out[FIXED] = _kept(run_policy(fixed, "far_only"), fixed)
    return out


def _kept(outcome: Outcome, setup: Setup) -> dict[str, Any]:
    summary = summarise(outcome, setup.scenario).as_dict()
    return {name: summary[name] for name in (*KEPT, *ALSO)}


class Results:
    """What was simulated with this code and these accuracies, kept line by line. The bounds take nearly all of the time
    and know nothing of the scheduler, so they have a file of their own and outlive its changes."""

    def __init__(self, accuracies: Path, *, frames: int, deadline_us: int) -> None:
        made_of = accuracies.read_bytes() + f"{frames} {deadline_us}".encode()
        self._bounds = accuracies.with_name(f"bounds-{_digest(made_of, 'nearfar/simulation')}.jsonl")
        code = ("edge/scheduling", "cloud/scheduling", "nearfar/simulation")
        self._runs = accuracies.with_name(f"simulate-{_digest(made_of, *code)}.jsonl")
        self.rows: dict[tuple[str, int], dict[str, Any]] = {}
        self.rungs: dict[str, int] = {}
        for path in (self._bounds, self._runs):
            if path.exists():
                for line in path.read_text().splitlines():
                    self._take(json.loads(line))

    def has(self, trace: str, seed: int, policy: str) -> bool:
        return policy in self.rows.get((trace, seed), {})

    def keep_rung(self, trace: str, rung: int) -> None:
        self._write(self._runs, {"trace": trace, "rung": rung})

    def keep_bounds(self, trace: str, seed: int, figures: dict[str, dict[str, Any]]) -> None:
        self._write(self._bounds, {"trace": trace, "seed": seed, "runs": figures})

    def keep_runs(self, trace: str, seed: int, figures: dict[str, dict[str, Any]]) -> None:
        self._write(self._runs, {"trace": trace, "seed": seed, "runs": figures})

    def _write(self, path: Path, row: dict[str, Any]) -> None:
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        self._take(row)

    def _take(self, row: dict[str, Any]) -> None:
        if "rung" in row:
            self.rungs[row["trace"]] = row["rung"]
        else:
            self.rows.setdefault((row["trace"], row["seed"]), {}).update(row["runs"])


def _digest(made_of: bytes, *folders: str) -> str:
    digest = hashlib.sha256(made_of)
    for folder in folders:
        for source in sorted((ROOT / folder).glob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


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
        name = path.stem
        if name not in results.rungs:
            results.keep_rung(name, best_fixed_rung(path, accuracies, deadline_us))
            yield
        one = only(accuracies, (accuracies.ladder[results.rungs[name]],))
        for seed in range(seeds):
            setup = setup_for(path, accuracies, seed=seed, frames=frames, deadline_us=deadline_us)
            if not results.has(name, seed, BOUNDS[0]):
                results.keep_bounds(name, seed, bounds(setup))
                yield
            if not results.has(name, seed, FIXED):
                fixed = setup_for(path, one, seed=seed, frames=frames, deadline_us=deadline_us)
                results.keep_runs(name, seed, runs(setup, fixed))
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
            done = sum(results.has(path.stem, seed, FIXED) for path in paths for seed in range(seeds))
            sys.exit(f"{done} of {len(paths) * seeds} done: call again")
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
    speeds = [results.rows[name, seed]["deadline"]["fps"] for name in names for seed in range(seeds)]
    report.at_least("frames simulated per CPU second, median", 2000, sorted(speeds)[len(speeds) // 2])


if __name__ == "__main__":
    run(
        "simulate",
        measure,
        values={"deadline": f"ms; default {DEADLINE_MS}"},
        part="stop after 50 s; the next call goes on where it stopped",
    )
