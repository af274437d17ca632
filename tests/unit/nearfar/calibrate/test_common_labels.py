"""Near and far are compared in one list of labels, or it is said why they cannot be."""

import numpy as np
import pytest

from nearfar.calibrate.common_labels import CommonLabels
from pipelines.errors import ConfigError
from pipelines.result import Detections


def one(label: str, labels: tuple[str, ...]) -> Detections:
    return Detections(
        np.array([[0, 0, 8, 8]], np.float32),
        np.array([0.9], np.float32),
        np.array([labels.index(label)], np.uint16),
        labels,
    )


def test_both_come_out_in_the_recipes_labels():
    near, far = ("people", "dog"), ("person", "car")
    common = CommonLabels(["person"], {"people": "person"}, near=near, far=far)
    assert common.apply(one("people", near)) == common.apply(one("person", far))
    assert len(common.apply(one("dog", near))) == 0
    assert common.notes == ()


def test_without_labels_in_the_recipe_they_are_compared_by_name():
    near, far = ("cat", "person"), ("person", "cat", "cow")
    common = CommonLabels(None, {}, near=near, far=far)
    assert common.apply(one("cat", near)).class_ids.tolist() == [1]
    assert common.apply(one("cat", far)).class_ids.tolist() == [1]
    (note,) = common.notes
    assert "near cannot name 1 of far's 3 labels (cow)" in note


def test_models_that_share_no_label_cannot_be_compared():
    with pytest.raises(
        ConfigError, match=r"near and far share no label: near says face, far says person, car"
    ):
        CommonLabels(None, {}, near=("face",), far=("person", "car"))


@pytest.mark.parametrize(
    ("near", "far", "who"), [(("people",), ("person",), "near"), (("person",), ("people",), "far")]
)
def test_a_model_that_knows_none_of_the_recipes_labels_is_named_with_the_mend(near, far, who):
    with pytest.raises(ConfigError, match=f"{who} reports none of the recipe's labels") as refused:
        CommonLabels(["person"], {}, near=near, far=far)
    assert "label_map: {people: person}" in str(refused.value)


def test_a_label_only_far_knows_is_a_note():
    common = CommonLabels(["person", "car"], {}, near=("person",), far=("person", "car"))
    assert common.notes == ("near never reports car: its model has no such label",)
