"""From a worker's file to its engines, and from its engines to its metrics."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from cloud.config import WorkerConfig
from cloud.engine.engines import Engines, threads_of_each
from cloud.engine.recipe import Recipe
from cloud.engine.seat import Condition, EngineState
from cloud.model_spec import ModelSpec

_CHANNELS = 3
_LEAST_MEMORY_BYTES = 16 << 20  # several pictures of a usual size lie in it together


def engines_of(config: WorkerConfig, threads: Mapping[str, int]) -> Engines | None:
    """The engines `config` asks for, not started yet; None when its models run in the worker's own process. `threads`: of
    one run, by model."""
    if not config.processes:
        return None
    recipes = [
        Recipe.of(
            name,
            model.detector,
            instances=model.instances,
            threads=threads[name],
            warm_up=model.warm_up > 0,
        )
        for name, model in config.models.items()
    ]
    return Engines(
        recipes,
        processes=config.processes,
        memory_bytes=max(config.limits.pixels * _CHANNELS, _LEAST_MEMORY_BYTES),
        threads=threads_of_each(config.processes),
        hang_after_us=config.engine.hang_after,
        start_within_us=config.engine.start_within,
    )


def in_engines(specs: Sequence[ModelSpec], engines: Engines, *, processes: int) -> list[ModelSpec]:
    """The same models with every instance in an engine, and as many instances as all engines hold. No thread but an
    instance's own waits for an engine: one that hangs must not hold up those who bring frames."""
    return [
        replace(
            spec,
            build=partial(engines.build, spec.name),
            instances=spec.instances * processes,
            may_be_led=False,
        )
        for spec in specs
    ]


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
