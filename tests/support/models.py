"""Tiny ONNX models with CenterFace's inputs and outputs, made on the spot."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FROZEN_INPUT = [10, 3, 32, 32]  # what the real file declares
FACE_STRIDES = 3.0  # every face is 3 strides (12 input pixels) high and wide


def write_centerface(path: Path, *, slow_layers: int = 0) -> Path:
    """A model that sees a face at every 4x4 block of input pixels that is bright: score = mean / 255.

    Shapes are frozen like the real file's and one weight is listed as an input. `slow_layers` adds that many
    convolutions over 32 channels in full size, which change nothing but the time a run takes.
    """
    weights = [
        numpy_helper.from_array(np.full((1, 3, 4, 4), 1 / (48 * 255), np.float32), "mean"),
        numpy_helper.from_array(np.float32(0.0).reshape(1), "zero"),
        numpy_helper.from_array(np.log(np.float32(FACE_STRIDES)).reshape(1), "log_side"),
    ]
    nodes = [helper.make_node("Conv", ["input.1", "mean"], ["bright"], strides=[4, 4], kernel_shape=[4, 4])]
    score = "bright"
    if slow_layers:
        nodes += _slow_branch(slow_layers)
        nodes.append(helper.make_node("Add", ["bright", "nothing"], ["bright_late"]))
        score = "bright_late"
        weights += [
            numpy_helper.from_array(np.full((32, 3, 3, 3), 1 / 27, np.float32), "widen"),
            numpy_helper.from_array(np.full((32, 32, 3, 3), 1 / 288, np.float32), "blur"),
        ]
    nodes += [
        helper.make_node("Identity", [score], ["537"]),
        helper.make_node("Mul", [score, "zero"], ["flat"]),
        helper.make_node("Add", ["flat", "log_side"], ["side"]),
        helper.make_node("Concat", ["side", "side"], ["538"], axis=1),
        helper.make_node("Concat", ["flat", "flat"], ["539"], axis=1),
        helper.make_node("Concat", ["flat"] * 10, ["540"], axis=1),
    ]
    return _write(path, nodes, weights, outputs={"537": 1, "538": 2, "539": 2, "540": 10})


def write_other_model(path: Path) -> Path:
    """A sound ONNX model that is no CenterFace."""
    return _write(path, [helper.make_node("Relu", ["input.1"], ["out"])], [], outputs={"out": 3})


def _slow_branch(layers: int) -> list[onnx.NodeProto]:
    nodes = [helper.make_node("Conv", ["input.1", "widen"], ["slow0"], pads=[1, 1, 1, 1])]
    nodes += [
        helper.make_node("Conv", [f"slow{i}", "blur"], [f"slow{i + 1}"], pads=[1, 1, 1, 1])
        for i in range(layers)
    ]
    nodes.append(helper.make_node("ReduceMean", [f"slow{layers}"], ["mean_slow"], keepdims=1))
    nodes.append(helper.make_node("Mul", ["mean_slow", "zero"], ["nothing"]))
    return nodes


def _write(
    path: Path, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], *, outputs: dict[str, int]
) -> Path:
    batch, _, height, width = FROZEN_INPUT
    inputs = [helper.make_tensor_value_info("input.1", TensorProto.FLOAT, FROZEN_INPUT)]
    inputs += [
        helper.make_tensor_value_info("zero", TensorProto.FLOAT, [1]) for w in weights if w.name == "zero"
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        inputs,
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, channels, height // 4, width // 4])
            for name, channels in outputs.items()
        ],
        initializer=weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path
