"""YuNet: faces land where they are, by the formula of the reference."""

import numpy as np
import pytest

from pipelines.detectors.grids import cells_of
from pipelines.detectors.yunet import YuNet, decode
from pipelines.errors import ConfigError
from tests.support.models import write_yunet


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_yunet(tmp_path_factory.mktemp("model") / "tiny.onnx")


@pytest.mark.parametrize(("fit", "expected"), [("stretch", [48, 8, 64, 16]), ("letterbox", [48, 16, 64, 32])])
def test_a_face_is_found_on_its_exact_pixels_whatever_the_fit(model, fit, expected):
    picture = np.zeros((64, 128, 3), np.uint8)
    x1, y1, x2, y2 = expected
    picture[y1:y2, x1:x2] = 255
    found = YuNet(model=model, input_size=(64, 64), fit=fit).detect(picture)
    assert found.boxes.tolist() == [expected]
    assert found.scores.tolist() == [1.0]
    assert found.labels == ("face",)


@pytest.mark.parametrize(("stride", "first"), [(8, 0), (16, 8 * 12), (32, 8 * 12 + 4 * 6)])
def test_a_row_belongs_to_its_cell_and_its_box_follows_the_formula(stride, first):
    cells = cells_of((96, 64))
    columns = 96 // stride
    row, column = 1, 2
    at = first + row * columns + column
    classes, objects = np.zeros((2, len(cells)), np.float32)
    boxes = np.zeros((len(cells), 4), np.float32)
    classes[at], objects[at] = 0.81, 1.0
    boxes[at] = [0.25, -0.5, np.log(2), np.log(3)]
    found = decode(classes=classes, objects=objects, boxes=boxes, cells=cells, min_score=0.5)
    x, y = (column + 0.25) * stride, (row - 0.5) * stride
    assert np.allclose(found.boxes, [[x - stride, y - 1.5 * stride, x + stride, y + 1.5 * stride]], atol=1e-3)
    assert np.allclose(found.scores, [0.9])


def test_scores_a_little_outside_0_and_1_are_taken_for_0_and_1():
    cells = cells_of((32, 32))
    classes, objects = np.full((2, len(cells)), -0.001, np.float32)
    classes[0] = objects[0] = 1.001
    found = decode(
        classes=classes,
        objects=objects,
        boxes=np.zeros((len(cells), 4), np.float32),
        cells=cells,
        min_score=0.5,
    )
    assert found.scores.tolist() == [1.0]


@pytest.mark.parametrize("size", [(100, 64), (64, 100), (0, 32)])
def test_an_input_that_is_no_multiple_of_32_is_refused(model, size):
    with pytest.raises(ConfigError, match=r"yunet: input .* multiples of 32"):
        YuNet(model=model, input_size=size)
