"""An answer speaks the recipe's labels, whatever the model called them."""

import numpy as np

from pipelines.labels import LabelMap
from pipelines.result import Detections


def detections(class_ids, labels):
    count = len(class_ids)
    return Detections(
        np.arange(count * 4, dtype=np.float32).reshape(count, 4),
        np.linspace(0.9, 0.5, count, dtype=np.float32),
        np.array(class_ids, np.uint16),
        labels,
    )


def test_classes_are_renumbered_by_name_and_the_rest_is_dropped_in_order():
    labels = ("cat", "person", "car")
    given = detections([2, 0, 1, 2], labels)
    mapped = LabelMap(labels, ("person", "car", "bus")).apply(given)
    assert mapped.class_ids.tolist() == [1, 0, 1]
    assert mapped.class_ids.dtype == np.uint16
    assert mapped.labels == ("person", "car", "bus")
    assert mapped.boxes.tolist() == given.boxes[[0, 2, 3]].tolist()
    assert mapped.scores.tolist() == given.scores[[0, 2, 3]].tolist()


def test_a_class_without_a_label_is_dropped():
    assert len(LabelMap(("a",), ("a",)).apply(detections([1, 65_535], ("a",)))) == 0


def test_nothing_seen_stays_nothing_seen_in_the_space_of_the_recipe():
    assert LabelMap(("a",), ("b",)).apply(Detections.empty(("a",))) == Detections.empty(("b",))


def test_without_a_space_the_labels_of_the_detector_pass():
    given = detections([1, 0], ("a", "b"))
    assert LabelMap(("a", "b")).apply(given) == given
