"""Far results in the recipe's labels: mapped once, on the thread of the link that brings them.

Merging labels compares boxes with each other; the dispatcher, which every deadline waits for, must not do it.
"""

from dataclasses import replace

from edge.links.base import Connected, Deliver, LinkEvent, Received
from pipelines.labels import LabelSpace
from pipelines.result import Detections
from protos.wire.live import Result


class FarLabels:
    """Hears what a link delivers, one event at a time, and passes it on. `space` None: the far model's own labels."""

    def __init__(self, space: LabelSpace | None, *, deliver: Deliver) -> None:
        self._space = space
        self._deliver = deliver
        self._of_model: dict[str, tuple[str, ...]] = {}

    def heard(self, event: LinkEvent) -> None:
        match event:
            case Connected(welcome=welcome):
                self._of_model.update((model.name, model.labels) for model in welcome.models)
            case Received(message=Result() as result):
                event = replace(event, message=replace(result, detections=self._mapped(result)))
        self._deliver(event)

    def _mapped(self, result: Result) -> Detections:
        """A result may leave its labels to what the welcome said of its model."""
        raw = result.detections
        labels = raw.labels or self._of_model.get(result.model, ())
        named = raw if raw.labels == labels else Detections(raw.boxes, raw.scores, raw.class_ids, labels)
        return named if self._space is None else self._space.apply(named)
