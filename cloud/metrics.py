"""What a worker counts, as Prometheus text; every name says its unit. One registry per worker, no globals."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

_SERVICE_BUCKETS_S = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)


@dataclass(frozen=True, slots=True)
class _ReadCounter(Collector):
    """A counter somebody else keeps, read at each scrape."""

    name: str
    words: str
    read: Callable[[], float]

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(self.name, self.words, value=self.read())


class WorkerMetrics:
    """Thread-safe. Counters only rise; gauges are read when asked for."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.frames = Counter(
            "nearfar_worker_frames",
            "Frames by how they ended: answered, rejected, cancelled, lost (connection gone before the body).",
            ["outcome"],
            registry=self.registry,
        )
        self.rejects = Counter(
            "nearfar_worker_rejects", "Rejected frames by reason.", ["reason"], registry=self.registry
        )
        self.errors = Counter(
            "nearfar_worker_errors",
            "Messages answered with an error, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.undelivered = Counter(
            "nearfar_worker_undelivered", "Replies no connection of their agent took.", registry=self.registry
        )
        self.service_seconds = Histogram(
            "nearfar_worker_service_seconds",
            "Decode plus detect of one frame, in seconds.",
            ["model"],
            buckets=_SERVICE_BUCKETS_S,
            registry=self.registry,
        )
        self.model_restarts = Counter(
            "nearfar_worker_model_restarts",
            "Model instances built anew after a failure.",
            ["model"],
            registry=self.registry,
        )
        self.records = Counter(
            "nearfar_worker_records",
            "Records committed, by source: live or backfill.",
            ["source"],
            registry=self.registry,
        )
        self.set_aside = Counter(
            "nearfar_worker_records_set_aside",
            "Records and gaps of acknowledged batches that can never be stored and were left out.",
            registry=self.registry,
        )
        self.acks = Counter("nearfar_worker_acks", "Acks sent after a commit.", registry=self.registry)
        self.bulk = Counter(
            "nearfar_worker_bulk_batches",
            "Bulk batches by how they ended: committed, refused (damaged or over a limit), dropped (too much waits).",
            ["outcome"],
            registry=self.registry,
        )

    def gauge(self, name: str, words: str, read: Callable[[], float]) -> None:
        """A value read at each scrape."""
        Gauge(name, words, registry=self.registry).set_function(read)

    def counter(self, name: str, words: str, read: Callable[[], float]) -> None:
        """A count kept elsewhere, read at each scrape as `name`_total."""
        self.registry.register(_ReadCounter(name, words, read))

    def describe(self, **labels: str) -> None:
        """Who this worker is, as the labels of `nearfar_worker_info`."""
        Info("nearfar_worker", "Which worker this is.", registry=self.registry).info(labels)

    def value(self, name: str, **labels: str) -> float:
        """The present value of one sample, 0 before it was first counted."""
        return self.registry.get_sample_value(name, labels) or 0.0

    def text(self) -> bytes:
        return generate_latest(self.registry)
