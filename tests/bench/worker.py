"""A whole worker against the loop it is built around: frames a second, and what its queue adds to a frame's wait.

Throughput: `nearfar cloud` with an instance a core, one thread each, and an agent with two frames an instance out,
against as many threads that decode and detect the same picture in a bare loop (`tests/bench/bare_loop.py`), in turn.
The first core is the agent's and idle while the loop runs: an agent belongs to a gateway, and the loop has none. With
the agent on the worker's own cores the ratio stands beside it. On a machine that does other work a worker's more
threads win it more of the cores; CPU per frame of both is free of that. Queue: a timer of 5 ms for a detector, Poisson
arrivals at 70 % of what it can do; of each result the time is counted that its frame was ready and its instance free but
not at work, and from its run's end to its reply.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import psutil

from pipelines.result import WorkerTiming
from pipelines.runtime import tune
from pipelines.windows import quantile
from tests.bench.bare_loop import encoding_of
from tests.bench.load.arrivals import poisson
from tests.bench.load.fleet import LoadAgent, drive, fleet, keep_busy
from tests.bench.load.worker import SERVICE_MS, WorkerUnderLoad, on_cores, stub_worker, worker_process
from tests.bench.postprocess import REAL, SHARED, pictures
from tests.bench.report import Report, run, summary_ms
from tests.support.models import write_yolox

BARS = {"zmq": 0.95, "grpc": 0.90}
SIDE_PX = 320
PICTURE_SIZE = (1280, 720)
QUALITY = 80
WINDOW = 2  # an instance: one frame in work and one that waits
PATIENCE_US = 5_000_000
LOAD, AGENTS = 0.7, 8
QUEUE_P99_MS = 1.0
PAIRS, SECONDS, QUEUE_S = 15, 4.0, 20.0
QUICK_PAIRS, QUICK_SECONDS, QUICK_QUEUE_S = 9, 0.8, 4.0
MODEL = """\
    detector: {{kind: yolox, model: "{model}", input: {side}x{side}}}
    instances: {instances}
    threads: 1
"""


class BareLoop:
    """The loop in a process of its own that is idle otherwise."""

    def __init__(self, model: Path, picture: Path, threads: int) -> None:
        arguments = [str(model), str(picture), str(SIDE_PX), str(threads)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.bare_loop", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._watched = psutil.Process(self._process.pid)
        assert self._line() == "ready"

    def cpu_s(self) -> float:
        """User and system time of it so far."""
        times = self._watched.cpu_times()
        return float(times.user + times.system)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def run(self, seconds: float) -> tuple[float, int]:
        """`(frames a second, frames)`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        rate, frames = self._line().split()
        return float(rate), int(frames)

    def close(self) -> None:
        self._process.communicate(timeout=10)


@contextmanager
def bare_loop(model: Path, picture: Path, cores: Collection[int]) -> Iterator[BareLoop]:
    """A thread for each of `cores`, and nowhere else."""
    with on_cores(cores):
        loop = BareLoop(model, picture, len(cores))
    try:
        yield loop
    finally:
        loop.close()


def worker_cores() -> list[int]:
    """All but the first, which is the agent's; the only one, where there is no other."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[1:] or cores


def throughput(
    kind: str, picture: Path, *, model: Path, pairs: int, seconds: float, shared: bool = False
) -> dict[str, Any]:
    """Frames a second and CPU of both, and the medians of the pairs' ratios; who begins changes from pair to pair.
    `shared`: every core is the worker's and the loop's, the agent's too. RuntimeError when a frame was not answered."""
    mine = os.sched_getaffinity(0)
    cores = sorted(mine) if shared else worker_cores()
    body = picture.read_bytes()
    frame = (body, encoding_of(body))
    served = MODEL.format(model=model, side=SIDE_PX, instances=len(cores))
    ours: list[tuple[float, float]] = []  # frames a second, CPU ms a frame
    bare: list[tuple[float, float]] = []
    with (
        worker_process(kind, served, cores=cores) as worker,
        bare_loop(model, picture, cores) as loop,
        on_cores(mine if shared else mine - set(cores) or mine),
    ):
        agent = LoadAgent("bench", worker.url, deadline_us=PATIENCE_US)
        try:
            agent.wait_ready()

            def our_run() -> tuple[float, int]:
                rate = keep_busy(agent, window=WINDOW * len(cores), seconds=seconds, frame=frame)
                if agent.tally.rejects or agent.tally.held or agent.tally.not_sent:
                    raise RuntimeError(f"frames were not answered: {agent.tally.rejects or agent.tally}")
                return rate, len(agent.tally.timings)

            our_run()
            for pair in range(pairs):
                turns = [
                    lambda: ours.append(_with_cpu(our_run, worker.cpu_s)),
                    lambda: bare.append(_with_cpu(lambda: loop.run(seconds), loop.cpu_s)),
                ]
                for turn in turns if pair % 2 else turns[::-1]:
                    turn()
        finally:
            agent.close()
    ratios = sorted(a / b for (a, _), (b, _) in zip(ours, bare, strict=True))
    return {
        "bare_per_s": _median(rate for rate, _ in bare),
        "worker_per_s": _median(rate for rate, _ in ours),
        "ratio": _median(ratios),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "bare_cpu_ms": _median(cpu_ms for _, cpu_ms in bare),
        "worker_cpu_ms": _median(cpu_ms for _, cpu_ms in ours),
        "cpu_ratio": _median(a / b for (_, a), (_, b) in zip(ours, bare, strict=True)),
        "picture_bytes": len(body),
        "instances": len(cores),
    }


def _with_cpu(run_once: Callable[[], tuple[float, int]], cpu_s: Callable[[], float]) -> tuple[float, float]:
    """`(frames a second, CPU ms a frame)` of one turn."""
    begun_s = cpu_s()
    per_s, frames = run_once()
    return per_s, 1000 * (cpu_s() - begun_s) / frames


def picture_in(folder: Path) -> Path:
    """A real frame where there is one, as a camera's JPEG."""
    picture = folder / "picture.jpg"
    pixels = cv2.resize(pictures(real=SHARED.exists())[0], PICTURE_SIZE, interpolation=cv2.INTER_AREA)
    cv2.imwrite(str(picture), pixels, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return picture


def _median(values: Iterable[float]) -> float:
    return round(quantile(sorted(values), 0.5), 3)


def overheads_us(timings: Sequence[WorkerTiming]) -> list[int]:
    """Of each frame that one instance ran: the time it was decoded and the instance free before its run began, and
    from the end of the run to the reply."""
    # By the begin of the run on the worker's clock.
    runs = sorted((t.body_mono_us + t.queue_us + t.decode_us, t) for t in timings)
    out: list[int] = []
    free_us = 0
    for begun_us, timing in runs:
        ended_us = begun_us + timing.detect_us
        could_us = max(free_us, timing.body_mono_us + timing.decode_us)
        replied_us = timing.body_mono_us + timing.resident_us
        out.append(max(0, begun_us - could_us) + max(0, replied_us - ended_us))
        free_us = ended_us
    return out


def queueing(worker: WorkerUnderLoad, *, seconds: float) -> dict[str, Any]:
    """What the queue adds at `LOAD` of what the detector can do."""
    rates = [LOAD * 1000 / SERVICE_MS / AGENTS] * AGENTS
    with fleet(worker.url, AGENTS) as agents:
        drive(agents, rates, poisson, seconds=1.0, seed=0)
        seen = drive(agents, rates, poisson, seconds=seconds, seed=1)
    timings = [timing for tally in seen.tallies for timing in tally.timings]
    waits_us = [timing.queue_us for timing in timings]
    return {
        "overhead_ms": summary_ms(overheads_us(timings)),
        "wait_ms": summary_ms(waits_us),
        "on_time": round(seen.on_time / seen.due, 4),
    }


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Throughput against a bare loop and queueing overhead, over ZeroMQ and gRPC."""
    tune()
    pairs, seconds, queue_s = (
        (QUICK_PAIRS, QUICK_SECONDS, QUICK_QUEUE_S) if arguments.quick else (PAIRS, SECONDS, QUEUE_S)
    )
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        model = (
            REAL
            if REAL.exists()
            else write_yolox(folder / "made.onnx", classes=80, slow_layers=1, slow_channels=16)
        )
        report.figures["model"] = model.name
        picture = picture_in(folder)
        for kind, bar in BARS.items():
            found = throughput(kind, picture, model=model, pairs=pairs, seconds=seconds)
            beside = throughput(kind, picture, model=model, pairs=pairs, seconds=seconds, shared=True)
            found["agent_on_the_same_cores"] = {
                name: beside[name] for name in ("ratio", "cpu_ratio", "instances")
            }
            with stub_worker(kind) as worker:
                found["queue"] = queueing(worker, seconds=queue_s)
            report.figures[kind] = found
            report.at_least(f"{kind}: frames/s / bare loop", bar, found["ratio"])
            report.at_most(
                f"{kind}: queueing overhead at 70 % load, p99 ms",
                QUEUE_P99_MS,
                found["queue"]["overhead_ms"]["p99"],
            )


if __name__ == "__main__":
    run("worker", measure)
