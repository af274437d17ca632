"""The worker under load: `nearfar cloud` as anybody starts it, on a core of its own, and what it says about itself.

Its detector is a timer of `SERVICE_MS`, which uses no CPU, as an accelerator would: so its capacity is known
whatever else runs on the machine, and every µs of CPU this process takes is the worker's own.
"""

import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.exposition import read_samples
from tests.support.rig import Process

SERVICE_MS = 5
WORKER = """\
version: 1
state_dir: {root}
listen:
  {kind}: {{address: "127.0.0.1:0"}}
  http: {{address: "127.0.0.1:0"}}
models:
  bench:
{model}"""
STUB = f"    detector: {{kind: synthetic, delay: {SERVICE_MS}ms, labels: [thing]}}\n"
REJECT = "nearfar_worker_reject_seconds"
Samples = dict[str, float]


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """What is started meanwhile runs on that core alone; None: wherever it likes."""
    with on_cores(None if core is None else {core}):
        yield


@contextmanager
def on_cores(cores: Collection[int] | None) -> Iterator[None]:
    """What is started meanwhile runs on those alone; None: wherever it likes."""
    mine = os.sched_getaffinity(0)
    if cores is not None:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


def worker_core() -> int | None:
    """The core kept for the worker; None where there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[-1] if len(cores) > 1 else None


class WorkerUnderLoad:
    """`url` is for links; `cpu_s` and `samples` are read while it runs."""

    def __init__(self, process: Process, kind: str) -> None:
        address = str(process.ready[kind])
        self.url = f"{kind}://{address.rpartition('//')[2]}"
        self._metrics = str(process.ready["http"]).rstrip("/") + "/metrics"
        self._process = psutil.Process(process.popen.pid)

    def cpu_s(self) -> float:
        """User and system time of all its threads so far."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def samples(self) -> Samples:
        """`name{labels}` → value."""
        with urllib.request.urlopen(self._metrics, timeout=10) as page:  # noqa: S310 - our own worker's
            return read_samples(page.read().decode())


@contextmanager
def worker_process(
    kind: str, model: str, *, cores: Collection[int] | None = None
) -> Iterator[WorkerUnderLoad]:
    """A worker with a listener of this kind and a model described in YAML, on these cores or on all."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        file = root / "worker.yaml"
        file.write_text(WORKER.format(root=root, kind=kind, model=model))
        with on_cores(cores):
            process = Process(["cloud", str(file)], root / "worker.log")
        try:
            yield WorkerUnderLoad(process.wait_ready(), kind)
        finally:
            process.stop()


@contextmanager
def stub_worker(kind: str) -> Iterator[WorkerUnderLoad]:
    """The worker with the timer, on its core."""
    core = worker_core()
    with worker_process(kind, STUB, cores=None if core is None else {core}) as worker:
        yield worker


def bare_rate(seconds: float) -> float:
    """Runs a second of the same detector in a loop of its own, in a process of its own on the worker's core."""
    with on_core(worker_core()):
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.load.bare", str(seconds)],
            check=True,
            capture_output=True,
            text=True,
        )
    return float(done.stdout)


def quantile_ms(before: Samples, after: Samples, q: float) -> float:
    """A quantile of what the worker's reject histogram counted between two looks, ms: the upper bound of its bucket."""
    name = f"{REJECT}_bucket"
    bounds = sorted(
        (float(key.split('le="')[1].rstrip('"}')), after[key] - before.get(key, 0.0))
        for key in after
        if key.startswith(name)
    )
    total = bounds[-1][1]
    if total == 0:
        return 0.0
    return round(1000 * next(bound for bound, count in bounds if count >= q * total), 3)
