"""From `models` of a worker's configuration to what builds them, each with its share of the threads."""

from collections.abc import Callable

from cloud.config import ModelConfig, WorkerConfig
from cloud.model_spec import ModelSpec
from cloud.scheduling.batch_rule import BatchRule
from cloud.thread_plan import ThreadPlan
from pipelines.detectors.base import Detector
from pipelines.detectors.kinds import DETECTORS


def model_specs(config: WorkerConfig, plan: ThreadPlan) -> list[ModelSpec]:
    return [_spec(config, name, threads=plan.threads[name]) for name in config.models]


def _spec(config: WorkerConfig, name: str, *, threads: int) -> ModelSpec:
    model = config.models[name]
    batch = model.batch or config.batch
    return ModelSpec(
        name=name,
        build=_builder(model, threads),
        instances=model.instances,
        warm_up=model.warm_up,
        sha256=model.sha256,
        batch=BatchRule(max=batch.max, wait_us=batch.wait),
    )


def _builder(model: ModelConfig, threads: int) -> Callable[[], Detector]:
    settings = model.detector
    if hasattr(settings, "threads"):
        settings = settings.model_copy(update={"threads": threads})

    def build() -> Detector:
        detector: Detector = DETECTORS.build(settings)
        return detector

    return build
