"""The real agent and a real worker over emulated links with the kernel's own TCP: every scenario, every policy.

    python -m tests.bench.scenarios.clip_cache                     # once, in parts, until it names the file
    python -m tests.bench.scenarios --out runs.jsonl               # hours; stop and go on as you like
    python -m tests.bench.scenarios --out runs.jsonl --only steady,lte --policies deadline,near_only
    python -m tests.bench.scenarios --out runs.jsonl --report      # the table, and whether the bars held

Needs root, two cores, iptables and ../shared. The agent has core 0 to itself; link, worker and this program share core 1.
"""

import argparse
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from tests.bench.scenarios import one_run, report
from tests.bench.scenarios.catalogue import BY_NAME, Scenario, chosen
from tests.bench.scenarios.clip_cache import LADDERS, ClipCache, path_of_cache
from tests.bench.scenarios.one_run import Plan
from tests.bench.scenarios.results import Results
from tests.support import netlab

POLICIES = ("near_only", "deadline", "threshold", "far_only")


def plans(arguments: argparse.Namespace, scenarios: list[Scenario]) -> Iterator[Plan]:
    """All policies of one scenario and deadline stand together, so that they are compared under one weather."""
    for number in range(arguments.rounds):
        for scenario in scenarios:
            for deadline_ms in arguments.deadlines.split(","):
                for policy in arguments.policies.split(","):
                    yield Plan(
                        scenario=scenario.name,
                        policy=policy,
                        deadline_ms=int(deadline_ms),
                        frames=arguments.frames,
                        fps=arguments.fps,
                        cc=arguments.cc,
                        worker=arguments.worker,
                        link=arguments.link,
                        ladder=arguments.ladder,
                        service_ms=arguments.service_ms,
                        round=number,
                    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scenarios",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="one line of JSON per run; what is there is kept"
    )
    parser.add_argument("--only", default="", help=f"beginnings of names, with commas: {', '.join(BY_NAME)}")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--deadlines", default="100,75", help="in ms")
    parser.add_argument("--frames", type=int, default=1005)
    parser.add_argument("--fps", type=float, default=15.0)
    parser.add_argument("--repeats", type=int, default=2, help="of a run that was disturbed")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cc", default="cubic", help="TCP congestion control of both sides")
    parser.add_argument("--worker", default="cached", choices=("cached", "real"))
    parser.add_argument("--link", default="zmq", choices=("zmq", "grpc"))
    parser.add_argument(
        "--ladder",
        default="wide",
        choices=tuple(LADDERS),
        help="wide: the eight rungs `simulate` has; sketch: three, as one writes them without a calibration",
    )
    parser.add_argument(
        "--service-ms",
        type=float,
        help="median of the cached worker's model; default: as when the cache was made",
    )
    parser.add_argument("--within", type=float, help="begin no run that would not end in so many seconds")
    parser.add_argument("--keep", type=Path, help="keep what agents and workers left behind in this folder")
    parser.add_argument("--report", action="store_true", help="make nothing; print the table as Markdown")
    arguments = parser.parse_args()
    results = Results(arguments.out)
    if arguments.report:
        print(report.markdown(results))
        sys.exit(0 if report.held(results) else 1)
    try:
        scenarios = chosen(arguments.only)
    except KeyError as error:
        parser.error(str(error.args[0]))
    if shutil.which("iptables") is None:  # some scenarios only: told before hours are spent on the others
        sys.exit("iptables is not there: apt-get install iptables")
    cache_path = path_of_cache()
    if not cache_path.exists():
        sys.exit("make the cache first: python -m tests.bench.scenarios.clip_cache")
    sys.exit(_make_all(arguments, scenarios, results, cache_path))


def _make_all(
    arguments: argparse.Namespace, scenarios: list[Scenario], results: Results, cache_path: Path
) -> int:
    cache = ClipCache.read(cache_path)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    one_run.settle()
    for line in netlab.clear_away():
        print(f"cleared away what an earlier run left: {line}", file=sys.stderr)
    until_s = None if arguments.within is None else time.monotonic() + arguments.within
    for plan in plans(arguments, scenarios):
        while results.wants(plan, repeats=arguments.repeats):
            if until_s is not None and time.monotonic() + plan.run_s + 15 > until_s:
                print("not finished: call again", file=sys.stderr)
                return 3
            results.add(_one(plan, cache, cache_path, arguments.keep))
            print(report.one_line(results.rows[-1]), flush=True)
    return 0


def _one(plan: Plan, cache: ClipCache, cache_path: Path, keep: Path | None) -> report.Row:
    """A run that breaks is told, and costs no other."""
    kept = (
        None
        if keep is None
        else keep
        / f"{plan.scenario}-{plan.policy}-{plan.deadline_ms}-{plan.round}-{time.time_ns() // 1_000_000_000}"
    )
    try:
        return one_run.make(plan, BY_NAME[plan.scenario], cache, cache_path, keep=kept)
    except Exception as error:
        traceback.print_exc()
        words = f"{type(error).__name__}: {error}"
        return {"plan": plan.as_dict(), "failed": words[-1500:]}


if __name__ == "__main__":
    main()
