"""YOLOX: things land where they are, under the names they were given, from every kind of export."""

import numpy as np
import onnx
import pytest

from pipelines.detectors.coco import COCO_80
from pipelines.detectors.grids import cells_of
from pipelines.detectors.yolox import Yolox, decode
from pipelines.errors import ConfigError
from tests.support.models import COLOURS, write_yolox

SIZE = (96, 64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def painted(height=64, width=96):
    """A green cell of stride 8 and a red one of stride 16 (for an input of that size)."""
    picture = np.zeros((height, width, 3), np.uint8)
    picture[8:16, 40:48, 1] = 255
    picture[32:48, 64:80, 2] = 255
    return picture


EXPORTS = [
    {},
    {"half": True},
    {"frozen": SIZE},
    {"frozen": SIZE, "decoded": True},
    {"frozen": SIZE, "decoded": True, "half": True},
]


@pytest.mark.parametrize("export", EXPORTS, ids=str)
def test_every_export_finds_the_same_things_on_their_exact_pixels(folder, export):
    path = write_yolox(folder / "export.onnx", **export)
    found = Yolox(model=path, input_size=SIZE, labels=COLOURS, min_score=0.9).detect(painted())
    assert found.labels == COLOURS
    names = [found.labels[i] for i in found.class_ids]
    seen = set(zip(names, map(tuple, found.boxes.tolist()), found.scores.tolist(), strict=True))
    # the four cells of stride 8 inside the red one are found as well: they overlap it by a quarter
    assert ("green", (40.0, 8.0, 48.0, 16.0), 1.0) in seen
    assert ("red", (64.0, 32.0, 80.0, 48.0), 1.0) in seen
    assert len(seen) == 6


def test_a_picture_of_another_shape_keeps_its_shape_at_the_top_left(folder):
    path = write_yolox(folder / "shape.onnx")
    picture = np.zeros((64, 192, 3), np.uint8)  # halved to 96x32
    picture[16:32, 96:112, 0] = 255
    found = Yolox(model=path, input_size=SIZE, labels=COLOURS, min_score=0.9).detect(picture)
    assert found.as_rows() == [
        {"label": "blue", "class_id": 0, "score": 1.0, "box": [96.0, 16.0, 112.0, 32.0]}
    ]


@pytest.mark.parametrize(("stride", "first"), [(8, 0), (16, 8 * 12), (32, 8 * 12 + 4 * 6)])
def test_a_row_belongs_to_its_cell_and_its_box_follows_the_formula(stride, first):
    cells = cells_of(SIZE)
    row, column = 1, 2
    rows = np.zeros((len(cells), 8), np.float32)
    rows[first + row * (SIZE[0] // stride) + column] = [0.25, -0.5, np.log(2), np.log(3), 0.8, 0.1, 0.5, 0.2]
    found = decode(rows, cells, min_score=0.3)
    x, y = (column + 0.25) * stride, (row - 0.5) * stride
    assert np.allclose(found.boxes, [[x - stride, y - 1.5 * stride, x + stride, y + 1.5 * stride]], atol=1e-3)
    assert np.allclose(found.scores, [0.4])
    assert found.class_ids is not None
    assert found.class_ids.tolist() == [1]


def test_rows_decoded_already_are_boxes_around_their_centre():
    rows = np.array([[50, 40, 20, 10, 1, 0.9], [0, 0, 9, 9, 0.2, 1]], np.float32)
    found = decode(rows, None, min_score=0.5)
    assert found.boxes.tolist() == [[40, 35, 60, 45]]


def test_a_broken_row_is_no_box_and_hides_none(folder):
    path = write_yolox(folder / "nan.onnx", half=True)
    detector = Yolox(model=path, input_size=SIZE, labels=COLOURS, min_score=0.9)
    whole = detector.detect(painted())
    spoilt = onnx.load(path)
    for weight in spoilt.graph.initializer:
        if weight.name == "box_32":
            weight.raw_data = np.full(4, np.nan, np.float16).tobytes()
    path.write_bytes(spoilt.SerializeToString())
    bright = painted()
    bright[0:32, 0:32] = 255  # seen by a cell of stride 32, whose box is no number
    found = Yolox(model=path, input_size=SIZE, labels=COLOURS, min_score=0.9, decoded=False).detect(bright)
    assert np.isfinite(found.boxes).all()
    assert {tuple(b) for b in whole.boxes.tolist()} < {tuple(b) for b in found.boxes.tolist()}


def test_80_classes_are_cocos_unless_they_are_named(folder):
    path = write_yolox(folder / "coco.onnx", classes=80)
    assert Yolox(model=path, input_size=SIZE).labels == COCO_80
    assert (COCO_80[0], COCO_80[79], len(set(COCO_80))) == ("person", "toothbrush", 80)
    mine = tuple(f"part {i}" for i in range(80))
    assert Yolox(model=path, input_size=SIZE, labels=mine).labels == mine


@pytest.mark.parametrize(
    ("classes", "labels", "words"),
    [
        (3, None, r"has 3 classes, so it does not speak COCO's 80: name them in order with labels: \[...\]"),
        (3, ["a", "b"], "has 3 classes and labels: names 2: write exactly one label per class"),
        (80, ["a", "b"], "has 80 classes and labels: names 2.*leave labels out for COCO's 80"),
    ],
)
def test_labels_that_do_not_fit_the_classes_are_refused_with_both_numbers(folder, classes, labels, words):
    path = write_yolox(folder / "labels.onnx", classes=classes)
    with pytest.raises(ConfigError, match=words):
        Yolox(model=path, input_size=SIZE, labels=labels)


def test_where_it_cannot_be_told_whether_boxes_are_decoded_a_person_is_asked_and_believed(folder):
    # boxes far from their cell in a small picture: both readings of the first run are alike
    path = write_yolox(folder / "small.onnx", offset=2.0)
    with pytest.raises(ConfigError, match=r"write decoded: true .* else decoded: false"):
        Yolox(model=path, input_size=(32, 32), labels=COLOURS)
    picture = np.zeros((32, 32, 3), np.uint8)
    picture[8:16, 0:8, 1] = 255
    found = [
        Yolox(model=path, input_size=(32, 32), labels=COLOURS, decoded=d, min_score=0.9).detect(picture)
        for d in (False, True)
    ]
    assert found[0].boxes.tolist() == [[12, 20, 20, 28]]
    assert len(found[1]) == 0  # read as pixels, nothing is wide enough to be there


@pytest.mark.parametrize("decoded", [False, True])
def test_a_file_that_plainly_contradicts_decoded_is_refused_instead_of_giving_boxes_elsewhere(
    folder, decoded
):
    path = write_yolox(folder / "plain.onnx", frozen=SIZE, decoded=decoded)
    with pytest.raises(ConfigError, match=f"decoded: {str(not decoded).lower()} contradicts the file"):
        Yolox(model=path, input_size=SIZE, labels=COLOURS, decoded=not decoded)
    Yolox(model=path, input_size=SIZE, labels=COLOURS, decoded=decoded)


def test_scores_without_their_sigmoid_are_refused(folder):
    path = write_yolox(folder / "logits.onnx", logits=True)
    with pytest.raises(ConfigError, match=r"not within 0 and 1.*sigmoids"):
        Yolox(model=path, input_size=SIZE, labels=COLOURS)


def test_three_anchors_per_cell_are_told_from_one(folder):
    path = write_yolox(folder / "v5.onnx", anchors_per_cell=3)
    with pytest.raises(ConfigError, match="it looks like a YOLOv5-type detector"):
        Yolox(model=path, input_size=SIZE, labels=COLOURS)


@pytest.mark.parametrize("size", [(100, 64), (64, 100), (0, 32)])
def test_an_input_that_is_no_multiple_of_32_is_refused(folder, size):
    with pytest.raises(ConfigError, match=r"yolox: input .* multiples of 32"):
        Yolox(model=folder / "never read.onnx", input_size=size)
