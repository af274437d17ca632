"""An answer speaks the recipe's labels, whatever the model called them."""

import numpy as np
import pytest

from pipelines.labels import LabelMap, LabelSpace, nearest_label
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
    mapped = LabelMap(labels, space=("person", "car", "bus")).apply(given)
    assert mapped.class_ids.tolist() == [1, 0, 1]
    assert mapped.class_ids.dtype == np.uint16
    assert mapped.labels == ("person", "car", "bus")
    assert mapped.boxes.tolist() == given.boxes[[0, 2, 3]].tolist()
    assert mapped.scores.tolist() == given.scores[[0, 2, 3]].tolist()


def test_a_class_without_a_label_is_dropped():
    assert len(LabelMap(("a",), space=("a",)).apply(detections([1, 65_535], ("a",)))) == 0


def test_nothing_seen_stays_nothing_seen_in_the_space_of_the_recipe():
    assert LabelMap(("a",), space=("b",)).apply(Detections.empty(("a",))) == Detections.empty(("b",))


def test_without_a_space_the_labels_of_the_detector_pass():
    given = detections([1, 0], ("a", "b"))
    assert LabelMap(("a", "b")).apply(given) == given


def test_classes_that_mean_the_same_come_out_as_one():
    labels = ("car", "truck", "dog", "people")
    space = LabelSpace(("vehicle", "person"), {"car": "vehicle", "truck": "vehicle", "people": "person"})
    mapped = space.apply(detections([1, 0, 2, 3], labels))
    assert mapped.class_ids.tolist() == [0, 0, 1]
    assert mapped.labels == ("vehicle", "person")


def test_a_thing_two_merged_classes_saw_is_reported_once_by_the_better_one():
    labels = ("car", "truck", "person")
    space = LabelSpace(("vehicle", "person"), {"car": "vehicle", "truck": "vehicle"})
    rows = [
        (1, 0.9, (10, 10, 50, 40)),
        (0, 0.8, (11, 10, 51, 41)),  # the same truck, taken for a car
        (2, 0.7, (10, 10, 50, 40)),  # its driver
        (0, 0.6, (80, 10, 120, 40)),  # another car
        (0, 0.5, (82, 10, 122, 40)),  # close to it, and the detector said both
    ]
    seen = Detections(
        np.array([box for _, _, box in rows], np.float32),
        np.array([score for _, score, _ in rows], np.float32),
        np.array([class_id for class_id, _, _ in rows], np.uint16),
        labels,
    )
    assert space.apply(seen).scores.tolist() == seen.scores[[0, 2, 3, 4]].tolist()
    unmerged = LabelSpace(labels).apply(seen)
    assert len(unmerged) == 5


def test_merging_costs_what_overlaps_and_finds_what_comparing_all_with_all_would():
    dice = np.random.default_rng(0)
    corners, sizes = dice.uniform(0, 900, (1000, 2)), dice.uniform(20, 300, (1000, 2))
    seen = Detections(
        np.concatenate([corners, corners + sizes], axis=1).astype(np.float32),
        np.linspace(0.9, 0.1, 1000, dtype=np.float32),
        dice.integers(0, 4, 1000).astype(np.uint16),
        ("car", "truck", "dog", "person"),
    )
    label_of = np.array([0, 0, 9, 1])[seen.class_ids]
    kept = []
    for i, box in enumerate(seen.boxes.astype(float)):
        before = seen.boxes[:i].astype(float)
        across = np.minimum(before[:, 2:], box[2:]) - np.maximum(before[:, :2], box[:2])
        shared = np.maximum(across, 0).prod(axis=1)
        either = (before[:, 2:] - before[:, :2]).prod(axis=1) + (box[2:] - box[:2]).prod() - shared
        same = (shared > 0.6 * either) & (label_of[:i] == label_of[i])
        if label_of[i] != 9 and not (same & (seen.class_ids[:i] != seen.class_ids[i])).any():
            kept.append(i)
    space = LabelSpace(("vehicle", "person"), {"car": "vehicle", "truck": "vehicle"})
    assert space.apply(seen).scores.tolist() == seen.scores[kept].tolist()
    assert len(kept) < np.count_nonzero(label_of != 9)


def test_near_and_far_models_of_different_words_give_answers_of_the_same():
    space = LabelSpace(("person",), {"people": "person"})
    near, far = detections([0], ("people",)), detections([1], ("car", "person"))
    assert space.apply(near) == space.apply(far)
    assert space.apply(near).labels == ("person",)


def test_what_a_model_can_never_report_is_said_with_its_nearest_label():
    space = LabelSpace(("person", "car"))
    assert space.unreported(("people", "car", "dog")) == ("person",)
    (said,) = space.complaints(who="near", labels=("people", "car", "dog"))
    assert said.startswith("near never reports person: its model has no such label; if people means the same")
    assert said.endswith("write label_map: {people: person}")
    assert space.complaints(who="near", labels=("zebra", "car")) == [
        "near never reports person: its model has no such label"
    ]


def test_a_renamed_label_is_reported():
    space = LabelSpace(("person",), {"people": "person"})
    assert space.complaints(who="near", labels=("people",)) == []
    assert space.complaints(who="far model x", labels=("person",), other=("people",)) == []


def test_a_label_of_neither_model_is_told_from_one_that_only_one_lacks():
    space = LabelSpace(("person", "cart", "face"))
    nobody, far = space.complaints(who="far model x", labels=("person", "car"), other=("face", "car"))
    assert nobody.startswith("cart is never reported: no model here has such a label; if car means the same")
    assert far == "far model x never reports face: its model has no such label"


def test_a_rename_that_no_model_needs_is_said_once_both_are_known():
    space = LabelSpace(("person",), {"poeple": "person"})
    labels = ("people", "person")
    assert space.complaints(who="near", labels=labels) == []
    assert space.complaints(who="near", labels=labels, other=()) == [
        "label_map: no model says poeple; did you mean people?"
    ]


@pytest.mark.parametrize(
    ("word", "nearest"), [("Person", "person"), ("peoples", "people"), ("giraffe", ""), ("tv", "TV")]
)
def test_the_nearest_label_is_the_one_most_alike_whatever_the_case_or_none(word, nearest):
    assert nearest_label(word, ("person", "people", "TV")) == nearest
