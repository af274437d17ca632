"""Who gets how many of a worker's threads, so that models and decoding together never want more cores than there are.

What the file says stands, even where it is too much: then the plan says so in words. The rest is divided evenly among
the instances that leave it open, and every one gets at least one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cloud.config import AUTO, WorkerConfig
from pipelines.cores import cores
from pipelines.detectors.kinds import computes


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One model. `threads` of one run; None = left open. `computes` False: it uses no core, as a timer does."""

    name: str
    instances: int
    threads: int | None
    computes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPlan:
    """`threads` of one run, by model; `decode` threads that decode ahead, 0 = none; `warning` is empty when they
    fit."""

    budget: int
    threads: dict[str, int]
    decode: int
    warning: str = ""


def thread_plan(config: WorkerConfig) -> ThreadPlan:
    """Within `threads`, or the cores of this process."""
    budget = max(1, int(cores())) if config.threads == AUTO else int(config.threads)
    wanted = [
        Wanted(
            name=name,
            instances=config.instances_of(name),
            threads=None if model.threads == AUTO else int(model.threads),
            computes=computes(model.detector),
        )
        for name, model in config.models.items()
    ]
    decode = config.decode.threads
    return plan_threads(budget, wanted, decode=None if decode == AUTO else int(decode))


def plan_threads(budget: int, models: Sequence[Wanted], *, decode: int | None) -> ThreadPlan:
    """Divide `budget` threads, at least 1; `decode` None: one, if that leaves every instance one of its own."""
    computing = [model for model in models if model.computes]
    least = sum(model.instances * (model.threads or 1) for model in computing)
    decoders = int(least < budget) if decode is None else decode
    left = budget - decoders - sum(model.instances * model.threads for model in computing if model.threads)
    open_instances = sum(model.instances for model in computing if model.threads is None)
    share = max(1, left // open_instances) if open_instances else 1
    threads = {model.name: model.threads or (share if model.computes else 1) for model in models}
    used = sum(model.instances * threads[model.name] for model in computing) + decoders
    warning = ""
    if used > budget:
        parts = [f"{m.name}: {m.instances} × {threads[m.name]}" for m in computing]
        parts += [f"decoding: {decoders}"] if decoders else []
        warning = (
            f"{used} threads want a core at once ({', '.join(parts)}) and there are {budget}: every run gets slower "
            "and less even; lower instances, threads or decode.threads, or move a model to another worker"
        )
    return ThreadPlan(budget=budget, threads=threads, decode=decoders, warning=warning)
