"""What is to be seen of the engine processes of a worker, as Prometheus reads it: which there are, and how they do."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from cloud.engine.seat import Condition, EngineState


def show_engines(registry: CollectorRegistry, states: Callable[[], list[EngineState]]) -> None:
    """Register what is to be seen of the engines. Call once."""
    registry.register(_EngineMetrics(states))


@dataclass(frozen=True, slots=True)
class _EngineMetrics(Collector):
    states: Callable[[], list[EngineState]]

    def collect(self) -> Iterator[Metric]:
        states = self.states()
        info = GaugeMetricFamily(
            "nearfar_worker_engine_info",
            "1 for each engine process; its labels say which it is now.",
            labels=["engine", "pid", "state"],
        )
        ready = GaugeMetricFamily(
            "nearfar_worker_engine_ready",
            "1 while every model of an engine process can be used.",
            labels=["engine"],
        )
        memory = GaugeMetricFamily(
            "nearfar_worker_engine_resident_memory_bytes",
            "What an engine process takes, pictures shared with it included; 0 while there is none.",
            labels=["engine"],
        )
        restarts = CounterMetricFamily(
            "nearfar_worker_engine_restarts",
            "Engine processes started anew after they crashed, hung or were killed.",
            labels=["engine"],
        )
        for state in states:
            name = str(state.engine)
            info.add_metric([name, str(state.pid or ""), state.condition.value], 1)
            ready.add_metric([name], state.condition is Condition.READY)
            memory.add_metric([name], _resident_bytes(state.pid))
            restarts.add_metric([name], state.restarts)
        yield from (info, ready, memory, restarts)


def _resident_bytes(pid: int) -> int:
    if not pid:
        return 0
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123 - no path of ours
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):  # it ended meanwhile
        return 0
