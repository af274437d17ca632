"""CenterFace: the right file, the right place, and words for everything that is neither."""

import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import onnx
import pytest

from pipelines.detectors.centerface import CenterFace, decode
from pipelines.detectors.onnx import OnnxModel
from pipelines.detectors.onnx_shapes import free_shapes
from pipelines.errors import ConfigError, Rejected
from tests.support.models import write_centerface, write_other_model

SHARED = Path(__file__).parents[3] / "shared"


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
    found = decode(heat, scale, offset, min_score=0.5, iou=0.3)
    centre_x, centre_y = (5 - 0.25 + 0.5) * 4, (2 + 0.25 + 0.5) * 4
    expected = [centre_x - 4, centre_y - 6, centre_x + 4, centre_y + 6]
    assert np.allclose(found.boxes, [expected], atol=1e-4)
    assert found.scores.tolist() == [np.float32(0.8)]


def test_a_score_below_the_minimum_is_no_face_and_neighbouring_peaks_are_one():
    heat = np.zeros((1, 1, 8, 8), np.float32)
    heat[0, 0, 3, 3:5] = (0.9, 0.8)
    heat[0, 0, 7, 7] = 0.4
    scale = np.full((1, 2, 8, 8), np.log(3), np.float32)
    found = decode(heat, scale, np.zeros_like(scale), min_score=0.5, iou=0.3)
    assert found.scores.tolist() == [np.float32(0.9)]


def test_the_sha256_is_that_of_the_file_and_a_right_one_is_accepted(model):
    expected = hashlib.sha256(model.read_bytes()).hexdigest()
    assert CenterFace(model=model, input_size=(64, 64), sha256=expected.upper()).sha256 == expected


def test_another_file_than_expected_is_refused_with_both_hashes(model):
    with pytest.raises(ConfigError) as error:
        OnnxModel(model, sha256="0" * 64)
    assert "0" * 64 in str(error.value)
    assert hashlib.sha256(model.read_bytes()).hexdigest() in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html>not found</html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"PK\x03\x04" + bytes(40), "zip archive"),
        (bytes(range(200)), "no ONNX model"),
    ],
)
@pytest.mark.parametrize("sha256", [None, "1" * 64])
def test_a_file_that_is_no_model_is_named_for_what_it_is(tmp_path, content, words, sha256):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        OnnxModel(path, sha256=sha256)
    assert str(path) in str(error.value)
    if sha256 is None or words != "no ONNX model":
        assert words in str(error.value)


def test_a_model_cut_off_on_its_way_is_refused(model, tmp_path):
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(model.read_bytes()[:-20])
    with pytest.raises(ConfigError, match="no ONNX model"):
        OnnxModel(cut)


def test_a_missing_model_is_refused_with_its_path(tmp_path):
    with pytest.raises(ConfigError, match=r"no model file at .*nowhere"):
        OnnxModel(tmp_path / "nowhere.onnx")


def test_a_sound_model_of_another_kind_is_refused_with_what_it_has(tmp_path):
    with pytest.raises(ConfigError, match="no CenterFace model"):
        CenterFace(model=write_other_model(tmp_path / "other.onnx"), input_size=(64, 64))


@pytest.mark.parametrize("size", [(100, 64), (64, 100), (0, 32), (-32, 32)])
def test_an_input_that_is_no_multiple_of_32_is_refused(model, size):
    with pytest.raises(ConfigError, match="multiples of 32"):
        CenterFace(model=model, input_size=size)


def test_without_onnxruntime_the_command_that_mends_it_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"pip install 'nearfar\[onnx\]'"):
        OnnxModel(model)


def test_an_input_of_the_wrong_shape_is_rejected_and_the_session_lives(model):
    session = OnnxModel(model)
    with pytest.raises(Rejected):
        session.run({"input.1": np.zeros((1, 5, 32, 32), np.float32)}, ["537"])
    (heat,) = session.run({"input.1": np.zeros((1, 3, 32, 32), np.float32)}, ["537"])
    assert heat.shape == (1, 1, 8, 8)


def test_freeing_shapes_leaves_weights_and_results_as_they_were(model):
    before, after = onnx.load(model), onnx.load_from_string(free_shapes(model.read_bytes()))
    assert after.graph.node == before.graph.node
    assert after.graph.initializer == before.graph.initializer
    assert [i.name for i in after.graph.input] == ["input.1"]
    dims = after.graph.input[0].type.tensor_type.shape.dim
    assert [d.WhichOneof("value") for d in dims] == [None, "dim_value", None, None]
    assert dims[1].dim_value == 3
    onnx.checker.check_model(after)


@pytest.mark.parametrize(
    "damage", [b"\x0f", b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x3a\x05ab", b"\x08"]
)
def test_damaged_bytes_are_rejected_and_never_read_past_their_end(damage):
    with pytest.raises(Rejected):
        free_shapes(damage)


@pytest.mark.lab
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared")
@pytest.mark.parametrize(("size", "frames"), [((192, 160), 12), ((320, 224), 38)])
def test_the_real_model_sees_faces_in_as_many_frames_as_the_reference_decoder(size, frames):
    config = SimpleNamespace(
        model=SHARED / "data/models/centerface.onnx",
        sha256="09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc",
        input=size,
        min_score=0.5,
        iou=0.3,
        threads=1,
        fit="stretch",
    )
    detector = CenterFace.from_config(config)
    video = cv2.VideoCapture(str(SHARED / "data/video/bikes.mp4"))
    with_faces = 0
    while (read := video.read())[0]:
        with_faces += len(detector.detect(read[1].astype(np.uint8))) > 0
    video.release()
    assert with_faces == frames
