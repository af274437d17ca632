"""One model of a worker: how its instances are built, how many there are, and how many frames they run together."""

from collections.abc import Callable
from dataclasses import dataclass

from cloud.lane import ModelLane
from cloud.scheduling.batch_rule import BatchRule
from pipelines.detectors.base import Detector


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
