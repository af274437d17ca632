"""A model file is what was meant, or the error says what it is instead and what to do."""

import hashlib
import sys

import cv2
import numpy as np
import onnx
import pytest
from onnx import TensorProto

from pipelines.detectors.onnx import OnnxModel
from pipelines.detectors.onnx_shapes import free_shapes
from pipelines.detectors.signature import read_signature
from pipelines.detectors.yolox import Yolox
from pipelines.detectors.yunet import YuNet
from pipelines.errors import ConfigError, Fatal, Rejected
from tests.support.models import COLOURS, write_centerface, write_other_model, write_yolox


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_centerface(tmp_path_factory.mktemp("model") / "tiny.onnx")


def picture_file(suffix):
    done, data = cv2.imencode(suffix, np.zeros((8, 8, 3), np.uint8))
    assert done
    return data.tobytes()


WRONG_FILES = [
    (b"", "the file is empty"),
    (b"<!DOCTYPE html><html>not found</html>", "web page"),
    (b'\xef\xbb\xbf<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "web page"),
    (b'<?xml version="1.0"?><net name="yolox" version="11">', "OpenVINO"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer.*git lfs pull"),
    (b"PK\x03\x04" + bytes(40), "zip archive.*PyTorch"),
    (b"\x1f\x8b\x08" + bytes(40), "gzip archive: unpack it"),
    (b"\x89HDF\r\n" + bytes(40), "HDF5"),
    (b"\x1c\x00\x00\x00TFL3" + bytes(40), "TensorFlow Lite"),
    (b"\x1c\x00\x00\x00ORTM" + bytes(40), "ORT format"),
    (picture_file(".jpg"), "a JPEG picture"),
    (picture_file(".png"), "a PNG picture"),
    (picture_file(".webp"), "a WebP picture"),
    (b"the model is on the other disk\n", "a text of 31 bytes that begins 'the model is on the other disk'"),
    (b'{"message": "Not Found"}', "a text of 24 bytes"),
    (bytes(range(200)), "200 bytes that begin with 00 01 02"),
]


@pytest.mark.parametrize(("content", "words"), WRONG_FILES)
def test_a_file_that_is_no_model_is_named_for_what_it_is(tmp_path, content, words):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"model.onnx is no ONNX model.*{words}"):
        OnnxModel(path)
    with pytest.raises(ConfigError, match=f"model.onnx is not the expected model.*{words}"):
        OnnxModel(path, sha256="1" * 64)


@pytest.mark.parametrize("missing_bytes", [1, 20, 500])
def test_a_model_cut_off_on_its_way_is_refused(model, tmp_path, missing_bytes):
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(model.read_bytes()[:-missing_bytes])
    with pytest.raises(ConfigError, match=r"no ONNX model.*cut off"):
        OnnxModel(cut)


def test_a_missing_model_is_refused_with_its_path(tmp_path):
    with pytest.raises(ConfigError, match=r"no model file at .*nowhere.onnx; put it there"):
        OnnxModel(tmp_path / "nowhere.onnx")


def test_a_folder_given_as_a_model_is_refused_with_its_path(tmp_path):
    with pytest.raises(ConfigError, match=f"cannot read the model file {tmp_path}"):
        OnnxModel(tmp_path)


def test_another_file_than_expected_is_refused_with_both_hashes(model):
    with pytest.raises(ConfigError) as error:
        OnnxModel(model, sha256="0" * 64)
    assert "0" * 64 in str(error.value)
    assert hashlib.sha256(model.read_bytes()).hexdigest() in str(error.value)


def test_a_model_newer_than_the_engine_is_refused_with_its_opset(tmp_path):
    path = write_yolox(tmp_path / "new.onnx", opset=99)
    with pytest.raises(
        ConfigError, match=r"opset 99, IR version 8.*lower opset, or install a newer onnxruntime"
    ):
        OnnxModel(path)


def test_a_graph_the_engine_cannot_join_is_refused_with_its_words(model, tmp_path):
    broken = onnx.load(model)
    broken.graph.node[0].input[0] = "nobody gives this"
    path = tmp_path / "broken.onnx"
    path.write_bytes(broken.SerializeToString())
    with pytest.raises(ConfigError, match=r"cannot load this model\n.*nobody gives this"):
        OnnxModel(path)


def test_weights_in_a_second_file_are_asked_for_in_one(model, tmp_path):
    apart = onnx.load(model)
    path = tmp_path / "apart.onnx"
    onnx.save(apart, str(path), save_as_external_data=True, location="apart.data", size_threshold=0)
    with pytest.raises(ConfigError, match="weights are in a second file: save the model as one file"):
        OnnxModel(path)


def test_an_input_of_whole_numbers_is_refused_with_what_is_fed(tmp_path):
    path = write_other_model(tmp_path / "bytes.onnx", element=TensorProto.UINT8)
    with pytest.raises(ConfigError, match=r"takes images uint8 \[1, 3, \?, \?\]; only float32 and float16"):
        OnnxModel(path)


def test_without_onnxruntime_the_command_that_mends_it_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"pip install 'nearfar\[onnx\]'"):
        OnnxModel(model)


OTHERS = [
    ({"loc": [1, 9, 14], "conf": [1, 9, 2], "iou": [1, 9, 1]}, "YuNet face detector of 2022.*2023 or later"),
    ({"output0": [1, 84, 8400]}, "YOLOv8-type detector"),
    ({"logits": [1, 100, 92], "pred_boxes": [1, 100, 4]}, "DETR-type detector"),
    ({"boxes": ["N", 4], "scores": ["N"], "labels": ["N"]}, "suppression built in"),
    ({"758": [1, 85, 22, 22]}, "one map per picture, as FastestDet does"),
    ({"prob": [1, 1000]}, "a classifier"),
    ({"age": [1, 1], "gender": [1, 2]}, "a classifier"),
]


@pytest.mark.parametrize(("outputs", "words"), OTHERS)
@pytest.mark.parametrize("detector", [Yolox, YuNet])
def test_a_detector_nobody_here_reads_is_named_for_what_it_is(tmp_path, detector, outputs, words):
    path = write_other_model(tmp_path / "other.onnx", outputs=outputs)
    with pytest.raises(ConfigError, match=f"it looks like .*{words}") as error:
        detector(model=path, input_size=(96, 64))
    assert "expected: inputs: one float [N, 3, H, W]" in str(error.value)
    assert all(name in str(error.value) for name in outputs)


def test_a_file_like_nothing_known_is_refused_with_what_it_has(tmp_path):
    path = write_other_model(tmp_path / "odd.onnx", outputs={"a": [1], "b": [1, 2, 3, 4, 5]})
    with pytest.raises(ConfigError, match=r"no model for kind: yunet\n    found:    inputs: images float32"):
        YuNet(model=path, input_size=(64, 64))


def test_a_model_with_frozen_sizes_runs_at_its_own_and_another_is_refused_with_the_one_to_write(tmp_path):
    path = write_yolox(tmp_path / "frozen.onnx", frozen=(96, 64))
    assert Yolox(model=path, input_size=(96, 64), labels=COLOURS).input_size == (96, 64)
    with pytest.raises(
        ConfigError, match="exported for 96x64 only and cannot run at 64x64: write input: 96x64"
    ):
        Yolox(model=path, input_size=(64, 64), labels=COLOURS)


def test_a_model_for_several_pictures_at_a_time_is_refused_with_their_number(tmp_path):
    made = onnx.load(write_yolox(tmp_path / "batch.onnx", frozen=(96, 64)))
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    for weight in made.graph.initializer:
        if weight.name.startswith("flat_shape"):
            weight.raw_data = np.array([4, *np.frombuffer(weight.raw_data, np.int64)[1:]]).tobytes()
    path = tmp_path / "batch4.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(ConfigError, match=r"exported for 4 pictures at a time: export it for one"):
        Yolox(model=path, input_size=(96, 64), labels=COLOURS)


def test_an_input_of_the_wrong_shape_is_rejected_and_the_session_lives(model):
    session = OnnxModel(model)
    with pytest.raises(Rejected):
        session.run({"input.1": np.zeros((1, 5, 32, 32), np.float32)}, ["537"])
    (heat,) = session.run({"input.1": np.zeros((1, 3, 32, 32), np.float32)}, ["537"])
    assert heat.shape == (1, 1, 8, 8)


def test_an_engine_that_breaks_in_a_run_is_fatal_and_says_so(tmp_path):
    session = OnnxModel(write_yolox(tmp_path / "frozen.onnx", frozen=(96, 64)))
    with pytest.raises(Fatal, match="onnxruntime failed"):
        session.run({"images": np.zeros((1, 3, 64, 64), np.float32)}, ["output"], quiet=True)


def test_freeing_shapes_leaves_weights_and_results_as_they_were(model):
    before, after = onnx.load(model), onnx.load_from_string(free_shapes(model.read_bytes()))
    assert after.graph.node == before.graph.node
    assert after.graph.initializer == before.graph.initializer
    assert [i.name for i in after.graph.input] == ["input.1"]
    dims = after.graph.input[0].type.tensor_type.shape.dim
    assert [d.WhichOneof("value") for d in dims] == [None, "dim_value", None, None]
    assert dims[1].dim_value == 3
    onnx.checker.check_model(after)


def test_a_signature_is_what_the_onnx_package_reads(model):
    ours, theirs = read_signature(model.read_bytes()), onnx.load(model)
    assert [port.name for port in ours.inputs] == ["input.1"]
    assert ours.inputs[0].dims == (10, 3, 32, 32)
    assert ours.inputs[0].element == "float32"
    assert ours.output_names == tuple(o.name for o in theirs.graph.output)
    assert (ours.opset, ours.ir_version) == (theirs.opset_import[0].version, theirs.ir_version)


@pytest.mark.parametrize(
    "damage", [b"\x0f", b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x3a\x05ab", b"\x08"]
)
def test_damaged_bytes_are_rejected_and_never_read_past_their_end(damage):
    with pytest.raises(Rejected):
        free_shapes(damage)
