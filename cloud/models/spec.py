"""The models of a worker: how the instances of each are built, how many there are, how many frames a run has."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from cloud.backlog.lane import ModelLane
from cloud.config import WorkerConfig
from cloud.models.thread_plan import ThreadPlan
from cloud.scheduling.batch_rule import BatchRule
from pipelines.detectors.base import Detector
from pipelines.detectors.kinds import DETECTORS, with_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """How to build one model. `sha256`: refuse any other file (None: take what there is). `batch`: at most as many at once
    as the detector takes. `may_be_led`: by the thread that brought a frame, which then waits for the run; not where a run may
    never end."""

    name: str
    build: Callable[[], Detector]
    instances: int = 1
    warm_up: int = 3
    sha256: str | None = None
    batch: BatchRule = BatchRule()
    may_be_led: bool = True

    def lane(self, *, decoders: int) -> ModelLane:
        """Where its frames wait; `decoders` threads decode ahead of its instances."""
        return ModelLane(self.instances, batch=self.batch, decoders=decoders, may_be_led=self.may_be_led)


def model_specs(config: WorkerConfig, plan: ThreadPlan) -> list[ModelSpec]:
    """Of a worker's file, each with its share of the threads; built in this process."""
    return [_spec(config, name, threads=plan.threads[name]) for name in config.models]


def _spec(config: WorkerConfig, name: str, *, threads: int) -> ModelSpec:
    model = config.models[name]
    batch = model.batch or config.batch
    return ModelSpec(
        name=name,
        build=partial(DETECTORS.build, with_threads(model.detector, threads)),
        instances=model.instances,
        warm_up=model.warm_up,
        sha256=model.sha256,
        batch=BatchRule(max=batch.max, wait_us=batch.wait),
    )
