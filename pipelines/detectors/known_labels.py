"""The labels a detector can show, as far as its settings tell: without opening its model."""

from pipelines.detectors.coco import COCO_80
from pipelines.detectors.kinds import DetectorConfig, SyntheticDetectorConfig, YoloxConfig

FACES = ("face",)


def known_labels(config: DetectorConfig) -> tuple[str, ...]:
    """Index = class id."""
    if isinstance(config, SyntheticDetectorConfig):
        return config.labels
    if isinstance(config, YoloxConfig):
        return COCO_80 if config.labels is None else config.labels
    return FACES
