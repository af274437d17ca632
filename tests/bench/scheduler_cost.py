"""What the scheduler itself costs a frame: every call it needs from offer to release, added up.

Four links, a ladder of eight rungs, four streams at 25 fps in virtual time; links of different speed, one of
them over budget now and then, so that the decision, probes, overdue frames and near runs are all in it.
"""

import argparse
import gc
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from edge.scheduling.near_timeline import Key
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
        self._scheduler = scheduler
        self.ways = scheduler.ways
        self.near = scheduler.near
        self.wake_up = scheduler.wake_up
        self.settings = scheduler.settings
        self.spent_ns: dict[str, int] = defaultdict(int)
        self.frame_ns: dict[Key, int] = defaultdict(int)
        self.shared_ns = 0
        self.clock_ns = clock_ns()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._scheduler, name)

        def timed(*args: Any, **named: Any) -> Any:
            begun_ns = time.thread_time_ns()
            value = method(*args, **named)
            took_ns = max(0, time.thread_time_ns() - begun_ns - self.clock_ns)
            self.spent_ns[name] += took_ns
            if args and isinstance(args[0], tuple):
                self.frame_ns[args[0]] += took_ns
            else:
                self.shared_ns += took_ns
            return value

        return timed


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


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """CPU time of the scheduler per frame."""
    frames = 300 if arguments.quick else 2_500
    made = world()
    watch: Any = made.scheduler
    made.run_frames(50, every_us=40 * MS, streams=STREAMS)
    watch.frame_ns.clear()
    watch.spent_ns.clear()
    watch.shared_ns = 0
    gc.collect()
    gc.freeze()
    made.run_frames(frames, every_us=40 * MS, first_seq=51, streams=STREAMS)
    handled = len(watch.frame_ns)
    shared_us = watch.shared_ns / handled / 1000
    # Ticks, timers and pings belong to no one frame: each frame bears its part.
    per_frame = [ns / 1000 + shared_us for ns in watch.frame_ns.values()]
    report.figures["frames"] = handled
    report.figures["reference_ms"] = round(reference_ms(), 1)
    report.figures["per_frame_ms"] = summary_ms(per_frame)
    report.figures["shared_us_per_frame"] = round(shared_us, 1)
    report.figures["us_per_frame_by_call"] = {
        name: round(ns / handled / 1000, 1) for name, ns in sorted(watch.spent_ns.items())
    }
    report.figures["sent_over"] = {link: sum(over == link for _, _, over in made.sent_over) for link in LINKS}
    report.at_most("scheduler ms per frame, p99", BAR_MS, report.figures["per_frame_ms"]["p99"])


if __name__ == "__main__":
    run("scheduler_cost", measure)
