"""Models in engine processes beside models in the worker's own: what the hop costs, and what more processes bring.

Pictures are 768x576 BGR. `hop`: a detector that takes no time, here and in an engine, in turns. Then a YOLOX at
416x416 with one thread in each instance (`--model FILE`, else the one in ../shared, else a made one of about the same
work), and a detector that is busy in Python, which keeps the interpreter's lock: instances as threads of one process
beside as many engines, in turns; frames per second of all together, and ms of one frame.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from cloud.engine.engines import Engines
from cloud.engine.recipe import Recipe
from pipelines.detectors.base import CancelToken, Detector
from pipelines.detectors.kinds import SyntheticDetectorConfig, YoloxConfig
from pipelines.frame import Picture
from pipelines.result import Detections
from pipelines.runtime import tune
from tests.bench.report import Report, run, summary_ms
from tests.support.models import write_yolox

SHARED = Path(__file__).parents[3] / "shared/data"
REAL = SHARED / "models/yolox_nano_dyn.onnx"
SIZE = (576, 768, 3)
MEMORY_BYTES = 36 << 20
BUSY_STEPS = 150_000
HOP_MS = 1.0
MODEL = "m"


class Busy:
    """Some ms of Python: nothing else of its process runs meanwhile."""

    name, labels, input_size, sha256 = "busy@64x64", ("thing",), (64, 64), "00" * 32

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        total = 0
        for i in range(BUSY_STEPS):
            total += i & 1
        return Detections.empty(self.labels)


def busy(settings: dict[str, Any]) -> Detector:
    return Busy()


@contextmanager
def instances(recipe: Recipe, *, count: int, processes: bool) -> Iterator[list[Detector]]:
    """`count` detectors: here, or each in an engine."""
    if not processes:
        yield [recipe.make() for _ in range(count)]
        return
    engines = Engines([recipe], processes=count, memory_bytes=MEMORY_BYTES)
    engines.start()
    try:
        yield [engines.build(recipe.model) for _ in range(count)]
    finally:
        engines.stop()


def timed(detector: Detector, pictures: Sequence[Picture], frames: int) -> list[float]:
    """µs of each run."""
    out = []
    for i in range(frames):
        begun = time.perf_counter_ns()
        detector.detect(pictures[i % len(pictures)])
        out.append((time.perf_counter_ns() - begun) / 1000)
    return out


def side_by_side(
    detectors: Sequence[Detector], pictures: Sequence[Picture], frames: int
) -> tuple[float, list[float]]:
    """Frames per second of all of them together, and µs of each run."""
    took: list[float] = []
    threads = [
        threading.Thread(target=lambda d=d: took.extend(timed(d, pictures, frames))) for d in detectors
    ]
    begun_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(took) / (time.perf_counter() - begun_s), took


def compare(recipe: Recipe, pictures: Sequence[Picture], *, rounds: int, frames: int) -> dict[str, Any]:
    """The four houses in turns: 1 and 2 instances, as threads and as processes."""
    houses = [(count, processes) for count in (1, 2) for processes in (False, True)]
    rates: dict[str, list[float]] = {}
    runs: dict[str, list[float]] = {}
    with ExitStack() as open_houses:
        made = {
            f"{count} {'processes' if processes else 'threads'}": open_houses.enter_context(
                instances(recipe, count=count, processes=processes)
            )
            for count, processes in houses
        }
        for detectors in made.values():
            side_by_side(detectors, pictures, 2)
        for _ in range(rounds):
            for name, detectors in made.items():
                rate, took = side_by_side(detectors, pictures, frames)
                rates.setdefault(name, []).append(rate)
                runs.setdefault(name, []).extend(took)
    return {
        name: {"fps": round(statistics.median(rates[name]), 1), "frame_ms": summary_ms(runs[name])}
        for name in made
    }


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """What engine processes cost and bring."""
    tune()
    cv2.setNumThreads(1)
    rounds, frames = (3, 15) if arguments.quick else (9, 60)
    dice = np.random.default_rng(1)
    pictures = [dice.integers(0, 255, SIZE, np.uint8) for _ in range(8)]
    still = Recipe.of(
        MODEL,
        SyntheticDetectorConfig.model_validate({"kind": "synthetic", "delay": "0ms"}),
        instances=1,
        threads=1,
        warm_up=True,
    )
    with (
        instances(still, count=1, processes=False) as (here,),
        instances(still, count=1, processes=True) as (there,),
    ):
        near, far = [], []
        timed(there, pictures, 50)
        for _ in range(rounds * 2):
            near += timed(here, pictures, frames)
            far += timed(there, pictures, frames)
    report.figures["hop_ms"] = {"here": summary_ms(near), "engine": summary_ms(far)}
    added = summary_ms(far)["p50"] - summary_ms(near)["p50"]
    report.at_most("an engine adds at most, in ms p50, to a run on 768x576 BGR", HOP_MS, added)
    with tempfile.TemporaryDirectory() as root:
        file = Path(arguments.model) if arguments.model else REAL
        if not file.exists():
            file = write_yolox(Path(root) / "made.onnx", classes=80, slow_layers=1, slow_channels=16)
        report.figures["model"] = file.name
        settings = {"kind": "yolox", "model": str(file), "input": "416x416"} | (
            {"decoded": False} if file.parent == Path(root) else {}
        )
        config = YoloxConfig.model_validate(settings)
        yolox = Recipe.of(MODEL, config, instances=1, threads=1, warm_up=True)
        report.figures["yolox"] = compare(yolox, pictures, rounds=rounds, frames=frames)
    python = Recipe(model=MODEL, maker="tests.bench.engine:busy")
    report.figures["busy in Python"] = compare(python, pictures, rounds=rounds, frames=frames)
    for name in ("yolox", "busy in Python"):
        rates = {house: figures["fps"] for house, figures in report.figures[name].items()}
        report.figures[f"{name}: 2 processes / 2 threads"] = round(
            rates["2 processes"] / rates["2 threads"], 3
        )
        report.figures[f"{name}: 1 process / 1 thread"] = round(rates["1 processes"] / rates["1 threads"], 3)


if __name__ == "__main__":
    words = "a YOLOX file of COCO's classes; default: the one in ../shared, else a made one"
    run("engine", measure, values={"model": words})
