"""Where the time of answered frames went, counted by the models' threads and read at a scrape.

A Prometheus histogram costs several µs per value in Python; this one costs one per frame for all of them.
"""

from bisect import bisect_left
from collections.abc import Iterator
from threading import Lock

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from cloud.jobs import Job

BOUNDS_US = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000, 1_000_000)
_PARTS = {
    "queue": "Body complete to start of the run, decoding included.",
    "decode": "Decoding of one picture.",
    "resident": "Body complete to its result.",
}


class FrameTimes(Collector):
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = [[0] * (len(BOUNDS_US) + 1) for _ in _PARTS]
        self._sums_us = [0] * len(_PARTS)
        self._bytes = 0

    def add(self, job: Job, now_us: int) -> None:
        """The result of `job` is ready now, on the worker's clock."""
        times_us = (job.started_us - job.body_us, job.decode_us, now_us - job.body_us)
        with self._lock:
            self._bytes += job.size_bytes
            for part, time_us in enumerate(times_us):
                self._counts[part][bisect_left(BOUNDS_US, time_us)] += 1
                self._sums_us[part] += time_us

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            counts, sums_us = [list(part) for part in self._counts], list(self._sums_us)
            payload_bytes = self._bytes
        for (name, words), values, sum_us in zip(_PARTS.items(), counts, sums_us, strict=True):
            family = HistogramMetricFamily(f"nearfar_worker_{name}_seconds", words)
            total, buckets = 0, []
            for bound_us, count in zip((*BOUNDS_US, None), values, strict=True):
                total += count
                buckets.append(("+Inf" if bound_us is None else str(bound_us / 1e6), total))
            family.add_metric([], buckets, sum_value=sum_us / 1e6)
            yield family
        yield CounterMetricFamily(
            "nearfar_worker_payload_bytes", "Bytes of the pictures that were answered.", value=payload_bytes
        )
