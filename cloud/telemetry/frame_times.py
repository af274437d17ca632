"""Where the time of frames went, counted by whoever answers or rejects them and read at a scrape.

A Prometheus histogram costs several µs per value in Python; this one costs one per frame for all of them.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from cloud.backlog.jobs import Job

BOUNDS_US = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000, 1_000_000)
# Finer where a model's time lies.
SERVICE_BOUNDS_US = tuple(1000 * ms for ms in (2, 5, 10, 20, 30, 50, 75, 100, 150, 250, 500, 1000, 2500))
REJECT_BOUNDS_US = (
    50,
    100,
    200,
    300,
    500,
    750,
    1_000,
    1_500,
    2_000,
    3_000,
    4_000,
    5_000,
    7_500,
    10_000,
    20_000,
    50_000,
)
_PARTS = {
    "queue": "Body complete to start of the run, decoding included.",
    "decode": "Decoding of one picture.",
    "resident": "Body complete to its result.",
}


@dataclass(slots=True)
class _Times:
    """How often a time fell below each bound, and their sum."""

    bounds_us: Sequence[int]
    sum_us: int = 0
    counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds_us) + 1)

    def add(self, time_us: int) -> None:
        self.counts[bisect_left(self.bounds_us, time_us)] += 1
        self.sum_us += time_us

    def copy(self) -> "_Times":
        return _Times(self.bounds_us, self.sum_us, list(self.counts))

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus wants them: cumulated, in seconds."""
        total, out = 0, []
        for bound_us, count in zip((*self.bounds_us, None), self.counts, strict=True):
            total += count
            out.append(("+Inf" if bound_us is None else str(bound_us / 1e6), float(total)))
        return out


class FrameTimes(Collector):
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts = {name: _Times(BOUNDS_US) for name in _PARTS}
        self._queue, self._decode, self._resident = self._parts.values()
        self._service: dict[str, _Times] = {}  # by model
        self._rejects = _Times(REJECT_BOUNDS_US)
        self._bytes = 0

    def serves(self, model: str) -> None:
        """Shown from the start, so that a first frame is seen to rise."""
        with self._lock:
            self._service.setdefault(model, _Times(SERVICE_BOUNDS_US))

    def add(self, job: Job, now_us: int, *, detect_us: int) -> None:
        """The result of `job` is ready now, on the worker's clock; its model is one of those served."""
        with self._lock:
            self._bytes += job.size_bytes
            self._queue.add(job.started_us - job.body_us)
            self._decode.add(job.decode_us)
            self._resident.add(now_us - job.body_us)
            self._service[job.model].add(job.decode_us + detect_us)

    def turned_away(self, took_us: int) -> None:
        """From a head's arrival to the hand-off of its reject."""
        with self._lock:
            self._rejects.add(took_us)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            parts = {name: times.copy() for name, times in self._parts.items()}
            service = {model: times.copy() for model, times in self._service.items()}
            rejects, payload_bytes = self._rejects.copy(), self._bytes
        for name, times in parts.items():
            family = HistogramMetricFamily(f"nearfar_worker_{name}_seconds", _PARTS[name])
            family.add_metric([], times.buckets(), sum_value=times.sum_us / 1e6)
            yield family
        family = HistogramMetricFamily(
            "nearfar_worker_service_seconds", "Decoding plus detection of one frame.", labels=["model"]
        )
        for model, times in service.items():
            family.add_metric([model], times.buckets(), sum_value=times.sum_us / 1e6)
        yield family
        family = HistogramMetricFamily(
            "nearfar_worker_reject_seconds",
            "Arrival of a head that is refused to the hand-off of its reject.",
        )
        family.add_metric([], rejects.buckets(), sum_value=rejects.sum_us / 1e6)
        yield family
        yield CounterMetricFamily(
            "nearfar_worker_payload_bytes", "Bytes of the pictures that were answered.", value=payload_bytes
        )
