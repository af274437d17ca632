"""CenterFace: faces land where they are, by the formula of the paper."""

import numpy as np
import pytest

from pipelines.detectors.centerface import CenterFace, decode
from pipelines.errors import ConfigError
from tests.support.models import write_centerface


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_centerface(tmp_path_factory.mktemp("model") / "tiny.onnx")


def bright_block(width, height, x, y, side):
    picture = np.zeros((height, width, 3), np.uint8)
    picture[y : y + side, x : x + side] = 255
    return picture


@pytest.mark.parametrize("fit", ["stretch", "letterbox"])
def test_a_face_is_found_in_the_pixels_of_the_picture_whatever_the_fit(model, fit):
    detector = CenterFace(model=model, input_size=(64, 64), fit=fit)
    # 128x64 source: one input cell of 4x4 px is a block of 8x4 (stretched) or 8x8 (letterboxed) source pixels
    found = detector.detect(bright_block(128, 64, 40, 24, 8))
    assert len(found) >= 1
    x1, y1, x2, y2 = found.boxes[0]
    assert x1 < 44 < x2
    assert y1 < 28 < y2
    assert found.labels == ("face",)


def test_a_model_with_frozen_shapes_runs_at_any_size(model):
    for size in ((32, 32), (96, 64), (320, 224)):
        detector = CenterFace(model=model, input_size=size)
        assert len(detector.detect(np.zeros((50, 70, 3), np.uint8))) == 0
        assert len(detector.detect(np.full((50, 70, 3), 255, np.uint8))) > 0


def test_peaks_become_boxes_by_the_formula_of_the_paper():
    heat = np.zeros((1, 1, 8, 8), np.float32)
    scale = np.zeros((1, 2, 8, 8), np.float32)
    offset = np.zeros((1, 2, 8, 8), np.float32)
    heat[0, 0, 2, 5] = 0.8
    scale[0, :, 2, 5] = np.log([3, 2])  # height 12 px, width 8 px
    offset[0, :, 2, 5] = [0.25, -0.25]  # y, x
    found = decode(heat=heat, scale=scale, offset=offset, min_score=0.5)
    centre_x, centre_y = (5 - 0.25 + 0.5) * 4, (2 + 0.25 + 0.5) * 4
    expected = [centre_x - 4, centre_y - 6, centre_x + 4, centre_y + 6]
    assert np.allclose(found.boxes, [expected], atol=1e-4)
    assert found.scores.tolist() == [np.float32(0.8)]


def test_a_score_below_the_minimum_is_no_face_and_neighbouring_peaks_are_one(model):
    picture = np.zeros((64, 64, 3), np.uint8)
    picture[12:16, 12:16], picture[12:16, 16:20], picture[40:44, 40:44] = 230, 204, 102
    found = CenterFace(model=model, input_size=(64, 64), min_score=0.5).detect(picture)
    assert np.allclose(found.scores, [230 / 255])
    assert np.allclose(found.boxes, [[8, 8, 20, 20]], atol=1e-3)  # 12 px around the brighter of the two cells


@pytest.mark.parametrize("size", [(100, 64), (64, 100), (0, 32), (-32, 32)])
def test_an_input_that_is_no_multiple_of_32_is_refused(model, size):
    with pytest.raises(ConfigError, match="multiples of 32"):
        CenterFace(model=model, input_size=size)
