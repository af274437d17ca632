"""How much a stream's next frame matters, by what the previous answer showed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.result import Detections, Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityRule:
    """`priority` while at least `count` boxes have the `label`, a score in `score_above..score_below` and
    their centre in `region` (x1, y1, x2, y2 as fractions of the picture). None = any."""

    priority: Priority
    label: str | None = None
    score_above: float = 0.0
    score_below: float = 1.0
    count: int = 1
    region: tuple[float, float, float, float] | None = None

    def matches(self, seen: Detections, size_px: tuple[int, int]) -> bool:
        fits = (seen.scores >= self.score_above) & (seen.scores <= self.score_below)
        if self.label is not None:
            if self.label not in seen.labels:
                return self.count <= 0
            fits &= seen.class_ids == seen.labels.index(self.label)
        if self.region is not None:
            x1, y1, x2, y2 = self.region
            x = (seen.boxes[:, 0] + seen.boxes[:, 2]) / 2 / max(1, size_px[0])
            y = (seen.boxes[:, 1] + seen.boxes[:, 3]) / 2 / max(1, size_px[1])
            fits &= (x >= x1) & (x <= x2) & (y >= y1) & (y <= y2)
        return int(np.count_nonzero(fits)) >= self.count


def first_match(rules: Sequence[PriorityRule], seen: Detections, size_px: tuple[int, int]) -> Priority | None:
    """The priority of the first rule that matches, None when none does."""
    return next((rule.priority for rule in rules if rule.matches(seen, size_px)), None)
