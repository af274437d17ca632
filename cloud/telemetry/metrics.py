"""What a worker counts, as Prometheus text; every name says its unit. One registry per worker, no globals.

Labels are closed lists of words and the models of the file. docs/metrics.md explains each name; a test keeps the
two together.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from cloud.backlog.jobs import Job
from cloud.store.writer import Store
from cloud.telemetry.frame_times import FrameTimes
from pipelines.result import Gap, Record
from protos.wire.session import ModelInfo, RejectReason

_STORE_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(frozen=True, slots=True)
class _ReadCounter(Collector):
    """A counter somebody else keeps, read at each scrape."""

    name: str
    words: str
    read: Callable[[], float]

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(self.name, self.words, value=self.read())


@dataclass(frozen=True, slots=True)
class _Shown(Collector):
    """A registry without the moments at which its counters were made: nobody asks for those, and they double it."""

    registry: CollectorRegistry

    def collect(self) -> Iterator[Metric]:
        for metric in self.registry.collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            if metric.samples:
                yield metric


@dataclass(frozen=True, slots=True)
class _TimedStore:
    """A record store whose successful commits are timed."""

    store: Store
    clock_us: Callable[[], int]
    took: Callable[[float], None]

    def commit(
        self,
        *,
        now_unix_us: int,
        far: Iterable[Record] = (),
        given: Iterable[Record] = (),
        gaps: Iterable[tuple[str, Gap]] = (),
    ) -> None:
        begun_us = self.clock_us()
        self.store.commit(now_unix_us=now_unix_us, far=far, given=given, gaps=gaps)
        self.took((self.clock_us() - begun_us) / 1e6)


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
        for outcome in ("rejected", "cancelled", "lost"):
            self.frames.labels(outcome)  # shown from the start, so that a first one is seen to rise
        self._answered = self.frames.labels("answered")
        self.rejects = Counter(
            "nearfar_worker_rejects", "Rejected frames by reason.", ["reason"], registry=self.registry
        )
        for reason in RejectReason:
            self.rejects.labels(reason.value)
        self.errors = Counter(
            "nearfar_worker_errors",
            "Messages answered with an error, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.undelivered = Counter(
            "nearfar_worker_undelivered", "Replies no connection of their agent took.", registry=self.registry
        )
        self._frame_times = FrameTimes()
        self.registry.register(self._frame_times)
        self._commit_seconds = self._histogram(
            "store_commit_seconds", "One commit of the record store.", _STORE_BUCKETS_S
        )
        self._ack_seconds = self._histogram(
            "ack_seconds", "Result (or batch taken in) to the ack after its commit.", _STORE_BUCKETS_S
        )
        self._model_info = Gauge(
            "nearfar_worker_model_info",
            "1 for each model served; its labels say which.",
            ["model", "sha256", "input"],
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)
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
        self._faults = Counter(
            "nearfar_worker_faults",
            "Turns of a thread that failed in a way nobody foresaw; it goes on, and the log says why.",
            ["thread"],
            registry=self.registry,
        )
        for thread in ("model", "decode", "bulk", "timer"):
            self._faults.labels(thread)
        self.acks = Counter("nearfar_worker_acks", "Acks sent after a commit.", registry=self.registry)
        self.bulk = Counter(
            "nearfar_worker_bulk_batches",
            "Bulk batches by how they ended: committed, refused (damaged or over a limit), dropped (too much waits, sent again).",
            ["outcome"],
            registry=self.registry,
        )

    def _histogram(self, name: str, words: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"nearfar_worker_{name}", words, buckets=buckets, registry=self.registry)

    def answered(self, job: Job, now_us: int, *, detect_us: int) -> None:
        """A run ended well: where the time of its frame went. Called once per frame, from the model's thread."""
        self._frame_times.add(job, now_us, detect_us=detect_us)
        self._answered.inc()

    def turned_away(self, took_us: int) -> None:
        """A head was refused on arrival; from then to the hand-off of its reject."""
        self._frame_times.turned_away(took_us)

    def fault(self, thread: str) -> None:
        """A turn of this thread (model, decode, bulk or timer) failed in a way nobody foresaw."""
        self._faults.labels(thread).inc()

    def acknowledged(self, submitted_us: int, now_us: int) -> None:
        """What was submitted to the record store then is acknowledged now."""
        self._ack_seconds.observe((now_us - submitted_us) / 1e6)

    def timed(self, store: Store, clock_us: Callable[[], int]) -> Store:
        """`store` with the time of each commit shown."""
        return _TimedStore(store, clock_us, self._commit_seconds.observe)

    def model(self, info: ModelInfo) -> None:
        """A model is served."""
        self._frame_times.serves(info.name)
        size = f"{info.input_width_px}x{info.input_height_px}"
        self._model_info.labels(info.name, info.sha256, size).set(1)

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
        return generate_latest(_Shown(self.registry))
