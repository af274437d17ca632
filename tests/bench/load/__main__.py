"""One worker under the load of 1 to 64 agents: goodput beyond capacity, how soon a reject is said, who gets how much.

`nearfar cloud` on a core of its own and agents on the others, real links on loopback, frames of 30 kB with a deadline
of 100 ms. Its detector is a timer of 5 ms without CPU: capacity is what the same detector gives in a bare loop on the
same core, measured in turn with each run. The generator is open-loop: it does not wait for answers, and a frame's
deadline counts from the moment it was due.
"""

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.runtime import tune
from pipelines.windows import quantile
from tests.bench.load.arrivals import ARRIVALS, poisson
from tests.bench.load.fleet import Drive, LoadAgent, drive, fleet, keep_busy
from tests.bench.load.worker import SERVICE_MS, WorkerUnderLoad, bare_rate, quantile_ms, stub_worker
from tests.bench.report import Report, run, summary_ms
from tests.support.jain import jain

KINDS = ("zmq", "grpc")
NOMINAL = 1000 / SERVICE_MS
OVERLOAD = 2.0
SUSTAINED = 0.7
EQUALS, GREED = 16, 10
WINDOW = 8
IDLE_S = 1.0
GOODPUT, REJECT_MS, JAIN, COST = 0.90, 5.0, 0.95, 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured: interleaved pairs, seconds of each run, sizes of the fleet.

    `fair_s`: an agent's share is a count, whose own chance spreads the shares: 50 answers each cost the index .02.
    `settle_s`: before CPU is measured.
    """

    pairs: int
    seconds: float
    fair_s: float
    settle_s: float
    fleets: tuple[int, ...]
    loads: tuple[float, ...] = (0.5, SUSTAINED, 1.0, OVERLOAD)


FULL = Plan(pairs=9, seconds=2.0, fair_s=12.0, settle_s=6.0, fleets=(1, 8, 64))
QUICK = Plan(pairs=3, seconds=0.8, fair_s=4.0, settle_s=2.5, fleets=(8,), loads=(SUSTAINED,))


def median(values: Sequence[float]) -> float:
    return quantile(sorted(values), 0.5)


def words(seen: Drive) -> dict[str, Any]:
    """What became of the frames of a run."""
    rejects: Counter[str] = Counter()
    for tally in seen.tallies:
        rejects += tally.rejects
    reject_us = [us for tally in seen.tallies for us in tally.reject_us]
    out: dict[str, Any] = {
        "due_per_s": round(seen.due / seen.seconds, 1),
        "goodput_per_s": round(seen.goodput, 1),
        "on_time": round(seen.on_time / max(1, seen.due), 3),
        "late": sum(tally.late for tally in seen.tallies),
        "held": sum(tally.held for tally in seen.tallies),
        "not_sent": sum(tally.not_sent for tally in seen.tallies),
        "rejects": dict(rejects),
        "generator_late_ms": summary_ms(seen.late_us),
    }
    if reject_us:
        out["reject_round_trip_ms"] = summary_ms(reject_us)
    if expired_us := [us for tally in seen.tallies for us in tally.expired_us]:
        out["expired_said_after_ms"] = summary_ms(expired_us)
    return out


def equal(agents: Sequence[LoadAgent], load: float) -> list[float]:
    """Frames a second of each, `load` × what the detector can do in all."""
    return [load * NOMINAL / len(agents)] * len(agents)


def overload(worker: WorkerUnderLoad, plan: Plan) -> dict[str, Any]:
    """Goodput at `OVERLOAD` over the bare loop's rate beside it, by the number of agents; and the worker's own
    rejects."""
    out: dict[str, Any] = {}
    for count in plan.fleets:
        ratios, last = [], None
        with fleet(worker.url, count) as agents:
            before = worker.samples()
            for pair in range(plan.pairs):
                bare = bare_rate(plan.seconds / 2)
                last = drive(agents, equal(agents, OVERLOAD), poisson, seconds=plan.seconds, seed=pair)
                ratios.append(last.goodput / bare)
            after = worker.samples()
            closed = keep_busy(agents[0], window=WINDOW, seconds=plan.seconds)
        assert last is not None
        out[f"{count} agents"] = {
            "goodput_over_bare": round(median(ratios), 3),
            "ratios": [round(ratio, 3) for ratio in sorted(ratios)],
            "reject_ms": {f"p{round(100 * q)}": quantile_ms(before, after, q) for q in (0.5, 0.99)},
            "one_agent_closed_loop_per_s": round(closed, 1),
            "last_run": words(last),
        }
    return out


def loads(worker: WorkerUnderLoad, plan: Plan) -> dict[str, Any]:
    """Every load with both kinds of arrivals."""
    out: dict[str, Any] = {}
    with fleet(worker.url, EQUALS) as agents:
        for name, arrivals in ARRIVALS.items():
            for load in plan.loads:
                seen = drive(agents, equal(agents, load), arrivals, seconds=plan.seconds, seed=1)
                out[f"{name} at {load}"] = words(seen)
    return out


def fairness(worker: WorkerUnderLoad, plan: Plan) -> dict[str, Any]:
    """Everybody asks for twice its share and one for ten times as much as the others."""
    rate = OVERLOAD * NOMINAL / (EQUALS + 1)
    with fleet(worker.url, EQUALS, greedy=True) as agents:
        seen = drive(agents, [rate] * EQUALS + [GREED * rate], poisson, seconds=plan.fair_s, seed=2)
    got = [tally.on_time / seen.seconds for tally in seen.tallies]
    return {
        "equals_per_s": [round(value, 1) for value in got[:-1]],
        "greedy_per_s": round(got[-1], 1),
        "jain_of_equals": round(jain(got[:-1]), 3),
        "jain_with_greedy": round(jain(got), 3),
        **words(seen),
    }


def cpu_us(worker: WorkerUnderLoad, agents: Sequence[LoadAgent], *, seconds: float, seed: int) -> float:
    """CPU of the worker per frame that came, µs, below capacity."""
    begun_s = worker.cpu_s()
    seen = drive(agents, equal(agents, SUSTAINED), poisson, seconds=seconds, seed=seed)
    came = seen.due - sum(tally.held + tally.not_sent for tally in seen.tallies)
    return (worker.cpu_s() - begun_s) * 1e6 / max(1, came)


def cost(worker: WorkerUnderLoad, plan: Plan, *, many: int) -> dict[str, Any]:
    """CPU per frame of one agent and of many, in turn, at the same frames a second. All are connected all the time, for
    a connection that sends nothing costs nothing; first each sends for a while, as links learn from their first frames.
    """
    alone: list[float] = []
    crowd: list[float] = []
    with (
        fleet(worker.url, 1, called="alone") as one,
        fleet(worker.url, many) as all_of_them,
    ):
        for agents in (one, all_of_them):
            drive(agents, equal(agents, SUSTAINED), poisson, seconds=plan.settle_s, seed=0)
        idle_s = worker.cpu_s()
        time.sleep(IDLE_S)
        idle_ms = 1000 * (worker.cpu_s() - idle_s) / IDLE_S
        for pair in range(plan.pairs):
            for agents, found in ((one, alone), (all_of_them, crowd)):
                found.append(cpu_us(worker, agents, seconds=plan.seconds, seed=pair))
    return {
        "one_agent_us": round(median(alone), 1),
        f"{many}_agents_us": round(median(crowd), 1),
        "ratio": round(median([b / a for a, b in zip(alone, crowd, strict=True)]), 3),
        "ratios": sorted(round(b / a, 3) for a, b in zip(alone, crowd, strict=True)),
        "idle_ms_per_s": round(idle_ms, 1),
    }


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Goodput at 2 × overload, reject latency, fairness and CPU per frame, over ZeroMQ and gRPC."""
    tune()
    plan = QUICK if arguments.quick else FULL
    for kind in KINDS:
        with stub_worker(kind) as worker:
            found = {
                "overload": overload(worker, plan),
                "loads": loads(worker, plan),
                "fairness": fairness(worker, plan),
                "cost": cost(worker, plan, many=64),
            }
        report.figures[kind] = found
        for agents, seen in found["overload"].items():
            report.at_least(
                f"{kind}: goodput at 2 × overload / bare loop, {agents}", GOODPUT, seen["goodput_over_bare"]
            )
            if agents != "1 agents":  # one agent alone stops at its own window
                report.at_most(f"{kind}: reject p99 ms, {agents}", REJECT_MS, seen["reject_ms"]["p99"])
        report.at_least(
            f"{kind}: Jain over equal agents beside a greedy one", JAIN, found["fairness"]["jain_of_equals"]
        )
        report.at_least(f"{kind}: Jain with the greedy one", JAIN, found["fairness"]["jain_with_greedy"])
        report.at_most(f"{kind}: CPU per frame, 64 agents / 1 agent", COST, found["cost"]["ratio"])


if __name__ == "__main__":
    run("load", measure)
