"""What a worker holds at this moment, shown among its metrics: read at each scrape, kept nowhere twice."""

from collections.abc import Callable, Collection

from cloud.agents.reception import Reception
from cloud.backlog.front import Backlog
from cloud.models.host import ModelHost
from cloud.store.writer import StoreWriter
from cloud.telemetry.metrics import WorkerMetrics


def show(
    metrics: WorkerMetrics,
    *,
    backlog: Backlog,
    hosts: Collection[ModelHost],
    reception: Reception,
    writer: StoreWriter,
    clock_us: Callable[[], int],
) -> None:
    """Register the gauges of a service's parts. Call once."""
    gauges: dict[str, tuple[str, Callable[[], float]]] = {
        "queue_frames": ("Frames admitted and not running.", lambda: backlog.waiting()[0]),
        "queue_bytes": ("Bytes of their bodies.", lambda: backlog.waiting()[1]),
        "queue_oldest_age_seconds": (
            "Since the head of the oldest of them arrived; 0 when none waits.",
            lambda: backlog.oldest_us(clock_us()) / 1e6,
        ),
        "window_frames": (
            "Frames an agent may have in flight now, of the model with the longest queue.",
            backlog.window_frames,
        ),
        "models_not_ready": ("Models without a usable instance.", lambda: len(backlog.models_not_ready())),
        "draining": ("1 once it admits nothing more.", lambda: backlog.draining),
        "agents": ("Agents with a welcomed connection.", reception.agents),
        "sessions": ("Welcomed connections, both lanes.", reception.connections),
        "uncommitted": (
            "Live results and whole batches, each counted once, that the record store has not committed yet.",
            lambda: writer.pending,
        ),
    }
    for name, (words, read) in gauges.items():
        metrics.gauge(f"nearfar_worker_{name}", words, read)
    metrics.counter("nearfar_worker_frames_admitted", "Heads let in.", lambda: backlog.admitted)
    metrics.counter(
        "nearfar_worker_runs", "Runs of models, of one or more frames.", lambda: sum(h.runs for h in hosts)
    )
    metrics.counter(
        "nearfar_worker_runs_retried",
        "Runs of several frames that failed and were done again, frame by frame.",
        lambda: sum(host.retried for host in hosts),
    )
    writer.count_in(metrics.counter)
