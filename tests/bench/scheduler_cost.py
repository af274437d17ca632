"""What the scheduler itself costs a frame: every call it needs from offer to release, added up.

Four links, a ladder of eight rungs, four streams at 25 fps in virtual time; links of different speed, one of
them over budget now and then, so that the decision, probes, overdue frames and near runs are all in it.

The same run is made several times: each decides exactly the same, so what a frame costs more in one of them than in the
others is the machine's (another program on the core, a cold cache), not the scheduler's. The bar is judged on the median
of a frame's CPU time; each run by itself and wall time stand beside it.
"""

import argparse
import gc
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from edge.scheduling.key import Key
from edge.scheduling.rung import Rung
from edge.scheduling.scheduler import Scheduler
from edge.scheduling.settings import StreamSettings
from pipelines.result import Priority
from tests.bench.report import Report, run, summary_ms
from tests.support.virtual import MS, World, links, settings

LINKS = ("cable", "lte", "sat", "wifi")
STREAMS = ("a", "b", "c", "d")
LADDER = tuple(
    Rung(codec="jpeg", quality=quality, scale=scale, accuracy=accuracy)
    for scale, quality, accuracy in (
        (1.0, 80, 0.97),
        (1.0, 50, 0.961),
        (0.75, 80, 0.976),
        (0.75, 50, 0.979),
        (0.75, 20, 0.942),
        (0.5, 80, 0.934),
        (0.5, 50, 0.911),
        (0.375, 50, 0.89),
    )
)
BAR_MS = 0.2
RUNS = 5
LONG_FRAMES = 100_000
BLOCK_FRAMES = 10_000


def clock_ns() -> int:
    """What a look at the CPU clock costs here: it is no cost of the scheduler."""
    looks = [time.thread_time_ns() for _ in range(2_000)]
    return sorted(b - a for a, b in pairwise(looks))[len(looks) // 2]


def reference_ms() -> float:
    """CPU time of a million additions in plain Python: how fast this core is at the moment."""
    begun_ns = time.thread_time_ns()
    total = 0
    for i in range(1_000_000):
        total += i
    return (time.thread_time_ns() - begun_ns) / 1e6


class Stopwatch:
    """A scheduler whose every call is timed (CPU time) and charged to the frame that is being handled."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.plain = scheduler
        self.ways = scheduler.ways
        self.near = scheduler.near
        self.wake_up = scheduler.wake_up
        self.settings = scheduler.settings
        self.spent_ns: dict[str, int] = defaultdict(int)
        self.frame_ns: dict[Key, int] = defaultdict(int)
        self.frame_wall_ns: dict[Key, int] = defaultdict(int)
        self.shared_ns = 0
        self.clock_ns = clock_ns()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.plain, name)

        def timed(*args: Any, **named: Any) -> Any:
            wall_begun_ns = time.perf_counter_ns()
            begun_ns = time.thread_time_ns()
            value = method(*args, **named)
            took_ns = max(0, time.thread_time_ns() - begun_ns - self.clock_ns)
            wall_ns = max(0, time.perf_counter_ns() - wall_begun_ns - 2 * self.clock_ns)
            self.spent_ns[name] += took_ns
            if args and isinstance(args[0], tuple):
                self.frame_ns[args[0]] += took_ns
                self.frame_wall_ns[args[0]] += wall_ns
            else:
                self.shared_ns += took_ns
            return value

        return timed


def weight_bytes(root: object) -> int:
    """What `root` keeps alive: the bytes of every object reached from it, code and classes aside."""
    seen: set[int] = set()
    todo, total = [root], 0
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType, FunctionType, BuiltinFunctionType)):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        todo += gc.get_referents(one)
    return total


def _often_slow(rtt_us: int) -> Callable[[int], int]:
    """A round trip that is eight times longer a quarter of the time."""
    return lambda now_us: rtt_us if now_us // 700_000 % 4 else rtt_us * 8


def world() -> World:
    streams = {
        name: StreamSettings(pixels=640 * 480, size_px=(640, 480), priority=priority)
        for name, priority in zip(STREAMS, (*Priority, Priority.NORMAL), strict=True)
    }
    scheduler = Scheduler(
        settings(ladder=LADDER, links=links(*LINKS), near_accuracy=0.79),
        streams,
    )
    made = World(Stopwatch(scheduler))  # type: ignore[arg-type]
    made.near_us = lambda _: 8 * MS
    speeds = ((10, 12.5), (25, 6.0), (40, 3.0), (15, 9.0))
    for wire, (rtt_ms, bytes_per_us) in zip(made.wires.values(), speeds, strict=True):
        wire.rtt_us = _often_slow(rtt_ms * MS)
        wire.bytes_per_us = bytes_per_us
    made.connect()
    made.run_until(made.now_us + 300 * MS)
    return made


def once(frames: int) -> tuple[World, Any]:
    """One run of so many frames a stream, and the stopwatch that went with it."""
    made = world()
    watch: Any = made.scheduler
    made.run_frames(50, every_us=40 * MS, streams=STREAMS)
    for spent in (watch.frame_ns, watch.frame_wall_ns, watch.spent_ns):
        spent.clear()
    watch.shared_ns = 0
    gc.collect()
    gc.freeze()
    made.run_frames(frames, every_us=40 * MS, first_seq=51, streams=STREAMS)
    return made, watch


def per_frame_us(watch: Any) -> dict[Key, float]:
    """CPU time of each frame. Ticks, timers and pings belong to no one frame: each bears its part."""
    shared_ns = watch.shared_ns / len(watch.frame_ns)
    return {key: (ns + shared_ns) / 1000 for key, ns in watch.frame_ns.items()}


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """CPU time of the scheduler per frame."""
    frames = 300 if arguments.quick else 1_500
    runs: list[dict[Key, float]] = []
    each: list[dict[str, float]] = []
    for _ in range(2 if arguments.quick else RUNS):
        made, watch = once(frames)
        runs.append(per_frame_us(watch))
        each.append(
            {
                "reference_ms": round(reference_ms(), 1),
                "p50": summary_ms([*runs[-1].values()])["p50"],
                "p99": summary_ms([*runs[-1].values()])["p99"],
                "wall_p99": summary_ms([ns / 1000 for ns in watch.frame_wall_ns.values()])["p99"],
            }
        )
    handled = len(runs[0])
    report.figures["frames"] = handled
    report.figures["runs_ms"] = each
    report.figures["per_frame_ms"] = summary_ms(
        [statistics.median([one[key] for one in runs]) for key in runs[0]]
    )
    report.figures["shared_us_per_frame"] = round(watch.shared_ns / handled / 1000, 1)
    report.figures["us_per_frame_by_call"] = {
        name: round(ns / handled / 1000, 1) for name, ns in sorted(watch.spent_ns.items())
    }
    report.figures["sent_over"] = {link: sum(over == link for _, _, over in made.sent_over) for link in LINKS}
    report.at_most("scheduler ms per frame, p99", BAR_MS, report.figures["per_frame_ms"]["p99"])

    if arguments.long:
        grow(report)


def grow(report: Report) -> None:
    """Time and memory of the scheduler while 100,000 frames go through it, block by block."""
    made = world()
    watch: Any = made.scheduler
    blocks: list[dict[str, float]] = []
    for block in range(LONG_FRAMES // BLOCK_FRAMES):
        begun_ns = sum(watch.spent_ns.values())
        first_seq = 1 + block * BLOCK_FRAMES // len(STREAMS)
        made.run_frames(BLOCK_FRAMES // len(STREAMS), every_us=40 * MS, first_seq=first_seq, streams=STREAMS)
        us = (sum(watch.spent_ns.values()) - begun_ns) / BLOCK_FRAMES / 1000
        kept = weight_bytes(watch.plain)
        blocks.append({"us_per_frame": round(us, 1), "kept_kb": round(kept / 1000, 1)})
        # The world remembers every frame; the scheduler must not.
        for memory in (
            made.given,
            made.released,
            made.deadlines,
            made.rungs,
            watch.frame_ns,
            watch.frame_wall_ns,
        ):
            memory.clear()
        for told in (made.near_runs, made.offloaded, made.sent_over, made.late_far):
            told.clear()
    report.figures["blocks_of_10000"] = blocks
    early, late = blocks[1:4], blocks[-3:]
    for name, most in (("us_per_frame", 1.25), ("kept_kb", 1.1)):
        times = min(b[name] for b in late) / max(0.001, min(b[name] for b in early))
        report.at_most(f"{name}: last blocks, times the first", most, times)


if __name__ == "__main__":
    run("scheduler_cost", measure, long="also whether time or memory grow over 100,000 frames")
