"""What share of its models' time a worker has used since it was last asked. Not thread-safe."""

from collections.abc import Callable, Mapping

from cloud.telemetry.metrics import WorkerMetrics


class Busyness:
    """`instances` by model: time of theirs that passed is what could have been used."""

    def __init__(
        self, metrics: WorkerMetrics, *, instances: Mapping[str, int], clock_us: Callable[[], int]
    ) -> None:
        self._metrics = metrics
        self._instances = instances
        self._clock_us = clock_us
        self._used_s, self._asked_us = self._used(), clock_us()
        self._share = 0.0

    def share(self) -> float:
        """0 to 1. Runs count when they end."""
        used_s, now_us = self._used(), self._clock_us()
        passed_s = (now_us - self._asked_us) / 1e6
        if passed_s > 0:
            could_s = passed_s * sum(self._instances.values())
            self._share = min(1.0, max(0.0, (used_s - self._used_s) / could_s))
            self._used_s, self._asked_us = used_s, now_us
        return self._share

    def _used(self) -> float:
        """Decoding and detection so far, in seconds, over all models."""
        return sum(
            self._metrics.value("nearfar_worker_service_seconds_sum", model=model)
            for model in self._instances
        )
