"""From a worker's file to its engines, and to models that run in them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from cloud.config import WorkerConfig
from cloud.engine.engines import Engines
from cloud.engine.recipe import Recipe
from cloud.models.spec import ModelSpec
from cloud.models.thread_plan import ThreadPlan

_CHANNELS = 3
_LEAST_MEMORY_BYTES = 16 << 20  # several pictures of a usual size lie in it together


def engines_of(config: WorkerConfig, plan: ThreadPlan) -> Engines | None:
    """The engines `config` asks for, not started yet; None when its models run in the worker's own process."""
    if not config.processes:
        return None
    recipes = [
        Recipe.of(
            name,
            model.detector,
            instances=model.instances,
            threads=plan.threads[name],
            warm_up=model.warm_up > 0,
        )
        for name, model in config.models.items()
    ]
    return Engines(
        recipes,
        processes=config.processes,
        memory_bytes=max(config.limits.pixels * _CHANNELS, _LEAST_MEMORY_BYTES),
        threads=max(1, plan.budget // config.processes),
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
