"""What the models of a worker cost on this machine, measured, and what follows from it. Nothing is served.

Every size of a batch is run on one instance, on two side by side, on four, up to all: what several instances gain is
seen only when they run at once. What the file says is run first; once `MEASURE_US` are over nothing more is begun, so
that many instances and slow ones end, too. Pictures are empty, and decoding comes on top.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cloud.config import WorkerConfig
from cloud.models.spec import ModelSpec, model_specs
from cloud.models.thread_plan import ThreadPlan, thread_plan
from cloud.models.warm_up import checked, sizes, warm_up
from cloud.scheduling.batch_rule import BatchRule
from cloud.scheduling.recent import Recent
from cloud.scheduling.station import Station
from pipelines.detectors.base import BatchDetector, Detector
from pipelines.frame import Picture

BUDGET_US = 100_000
"""What the bound of the queue is reckoned for."""
MEASURE_US = 60_000_000
"""For all models together, after they are loaded."""
WORTH_PERCENT = 10
_LEAST_RUNS = 5
_CELL_US = 400_000
_MOST_TRIED = 8
_RUNS_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`instances` side by side, each with `batch` frames a run: the median run, and the frames of all in a second."""

    instances: int
    batch: int
    run_us: int
    frames_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCost:
    """`batch` is what the worker would run with, `queue_frames` how many may wait for a budget of `BUDGET_US` while all
    instances work. `advice`: in words, what would carry clearly more; empty if nothing does. `left_out`: sizes of
    runs there was no time for."""

    name: str
    detector: str
    instances: int
    threads: int
    batch: BatchRule
    cells: Sequence[Cell]
    queue_frames: int
    advice: str
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTable:
    """`processes`: engine processes, each with all instances; 0 = none. They are measured as threads of this process."""

    plan: ThreadPlan
    models: Sequence[ModelCost]
    processes: int = 0


def measure(
    config: WorkerConfig, *, clock_us: Callable[[], int], doing: Callable[[str], None] = lambda _: None
) -> CostTable:
    """Build every model, one after the other. `doing` is told what is done, in words. Raises what building and warming up
    raise."""
    plan = thread_plan(config)
    each = max(1, config.processes)
    specs = [replace(spec, instances=spec.instances * each) for spec in model_specs(config, plan)]
    share_us = MEASURE_US // len(specs)
    costs = [
        _cost(
            spec,
            threads=plan.threads[spec.name],
            processes=each,
            within_us=share_us,
            clock_us=clock_us,
            doing=doing,
        )
        for spec in specs
    ]
    return CostTable(plan=plan, models=costs, processes=config.processes)


def _cost(
    spec: ModelSpec,
    *,
    threads: int,
    processes: int,
    within_us: int,
    clock_us: Callable[[], int],
    doing: Callable[[str], None],
) -> ModelCost:
    detectors = []
    for number in range(1, spec.instances + 1):
        doing(f"model {spec.name}: loading instance {number} of {spec.instances}")
        detectors.append(checked(spec))
    most = detectors[0].max_batch if isinstance(detectors[0], BatchDetector) else 1
    tried = max(spec.batch.max, min(most, _MOST_TRIED))
    for number, detector in enumerate(detectors, 1):
        doing(f"model {spec.name}: warming up instance {number} of {spec.instances}")
        most_here = tried if number == 1 else spec.batch.max  # one shows that it can
        warm_up(detector, model=spec.name, runs=max(1, spec.warm_up), most=most_here, clock_us=clock_us)
    wanted = [
        (count, size) for count in sizes(spec.instances) for size in sorted({*sizes(tried), spec.batch.max})
    ]
    wanted.sort(key=lambda cell: (cell[0] != spec.instances or cell[1] > spec.batch.max, cell))
    cells: list[Cell] = []
    until_us = clock_us() + within_us
    for count, size in wanted:
        said = (count, size) == (spec.instances, spec.batch.max)
        left_us = until_us - clock_us()
        if left_us <= 0 and not said:
            continue
        doing(f"model {spec.name}: {count} × {size} a run, {len(cells) + 1} of {len(wanted)}")
        cells.append(_cell(detectors[:count], size, clock_us, within_us=min(_CELL_US, max(0, left_us))))
    cells.sort(key=lambda cell: (cell.instances, cell.batch))
    return ModelCost(
        name=spec.name,
        detector=detectors[0].name,
        instances=spec.instances,
        threads=threads,
        batch=spec.batch,
        cells=cells,
        queue_frames=queue_bound(cells, spec.batch, instances=spec.instances),
        advice=advice(cells, spec.batch, instances=spec.instances, processes=processes),
        left_out=len(wanted) - len(cells),
    )


def _cell(detectors: Sequence[Detector], batch: int, clock_us: Callable[[], int], *, within_us: int) -> Cell:
    """At least `_LEAST_RUNS` runs of each, fewer where they take far longer than `within_us`."""
    took = Recent(_RUNS_KEPT)
    lock = threading.Lock()
    failed: list[BaseException] = []
    began_us = clock_us()

    def work(detector: Detector, picture: Picture) -> None:
        done = 0
        try:
            while clock_us() - began_us < within_us or done < (_LEAST_RUNS if within_us == _CELL_US else 1):
                started_us = clock_us()
                _run(detector, picture, batch)
                run_us = clock_us() - started_us
                done += 1
                with lock:
                    took.add(run_us)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked
            failed.append(error)

    width_px, height_px = detectors[0].input_size
    picture = np.zeros((height_px, width_px, 3), np.uint8)
    threads = [threading.Thread(target=work, args=(detector, picture)) for detector in detectors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    per_s = len(detectors) * batch / (max(1, took.p50_us) / 1e6)
    return Cell(instances=len(detectors), batch=batch, run_us=took.p50_us, frames_per_s=round(per_s, 1))


def _run(detector: Detector, picture: Picture, batch: int) -> None:
    if batch == 1:
        detector.detect(picture)
    elif isinstance(detector, BatchDetector):
        detector.detect_batch([picture] * batch)


def queue_bound(cells: Sequence[Cell], batch: BatchRule, *, instances: int) -> int:
    """How many frames may wait, all instances having just begun, for the last to be done within the budget: by the
    forecast that admits frames."""
    station = Station[None](instances=instances, batch=batch)
    station.ready = instances
    for cell in cells:
        if cell.instances == instances and cell.batch <= batch.max:
            station.seen(cell.batch, cell.run_us)
            if cell.batch == 1:
                station.served(decode_us=0, run_us=cell.run_us)
    for instance in range(instances):
        station.begin(instance, 0, size=batch.max)
    waiting = 0
    while waiting < 100_000:
        needed_us = station.delay_us("", None, 0, spoken_for=waiting) + station.service_us(waiting)
        if needed_us > BUDGET_US or needed_us <= 0:
            break
        waiting += 1
    return waiting


def advice(cells: Sequence[Cell], batch: BatchRule, *, instances: int, processes: int = 1) -> str:
    """The cell that carries most within half the budget, if that is clearly more than what the file says: `instances` in
    all `processes` together."""
    said = next(c for c in cells if (c.instances, c.batch) == (instances, batch.max))
    good = [cell for cell in cells if cell.run_us <= BUDGET_US // 2]
    best = max(good, key=lambda cell: cell.frames_per_s, default=said)
    if best.frames_per_s * 100 <= said.frames_per_s * (100 + WORTH_PERCENT):
        return ""
    changes = []
    if best.instances != instances:
        what = "instances:" if processes == 1 else "processes × instances ="
        changes.append(f"{what} {best.instances}")
    if best.batch != batch.max:
        changes.append(f"batch: {{max: {best.batch}}}")
    return (
        f"{', '.join(changes)} would carry {best.frames_per_s / max(said.frames_per_s, 0.1):.2f} times as much, at "
        f"{best.run_us / 1000:.1f} ms a run"
    )
