"""Tiny ONNX models with the inputs and outputs of the real ones, made on the spot, whose boxes are known exactly.

Each sees something wherever a cell of its grids is bright, so a test paints blocks and knows what must be found.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pipelines.detectors.grids import STRIDES_PX, cells_of

FROZEN_INPUT = [10, 3, 32, 32]  # what the real CenterFace file declares
FACE_STRIDES = 3.0  # every CenterFace face is 3 strides (12 input pixels) high and wide
COLOURS = ("blue", "green", "red")
"""The classes of `write_yolox`: class c is seen in channel c % 3 of the picture."""
OPSET, IR_VERSION = 13, 8

Node = onnx.NodeProto
Weight = onnx.TensorProto
Size = tuple[int, int]


def write_centerface(path: Path, *, slow_layers: int = 0) -> Path:
    """A model that sees a face at every 4x4 block of input pixels that is bright: score = mean / 255.

    Shapes are frozen like the real file's and one weight is listed as an input. `slow_layers` adds that many
    convolutions over 32 channels in full size, which change nothing but the time a run takes.
    """
    weights = [
        _weight("mean", np.full((1, 3, 4, 4), 1 / (48 * 255))),
        _weight("zero", np.zeros(1)),
        _weight("log_side", np.log([FACE_STRIDES])),
    ]
    slow, late = _slow("input.1", slow_layers)
    nodes = [
        *slow,
        _node("Conv", ["input.1", "mean"], "bright", strides=[4, 4], kernel_shape=[4, 4]),
        _node("Add", ["bright", late], "537"),
        _node("Mul", ["bright", "zero"], "flat"),
        _node("Add", ["flat", "log_side"], "side"),
        _node("Concat", ["side", "side"], "538", axis=1),
        _node("Concat", ["flat", "flat"], "539", axis=1),
        _node("Concat", ["flat"] * 10, "540", axis=1),
    ]
    batch, _, height, width = FROZEN_INPUT
    outputs: dict[str, Sequence[int | str]] = {
        name: [batch, channels, height // 4, width // 4]
        for name, channels in {"537": 1, "538": 2, "539": 2, "540": 10}.items()
    }
    inputs: dict[str, Sequence[int | str]] = {"input.1": FROZEN_INPUT, "zero": [1]}
    return _write(path, nodes, [*weights, *_slow_weights()], inputs=inputs, outputs=outputs)


def write_yolox(
    path: Path,
    *,
    classes: int = 3,
    frozen: Size | None = None,
    decoded: bool = False,
    half: bool = False,
    logits: bool = False,
    anchors_per_cell: int = 1,
    offset: float = 0.5,
    slow_layers: int = 0,
    slow_channels: int = 32,
    opset: int = OPSET,
) -> Path:
    """A model that sees a box of exactly a cell's size wherever a cell of stride 8, 16 or 32 is bright.

    Class c's score is the mean of channel c % 3 over the cell / 255, objectness that of the brightest channel.
    `frozen` (width_px, height_px): only that input runs. `decoded`: boxes in pixels, which needs `frozen`. `half`:
    float16 throughout. `logits`: scores without the sigmoid. `anchors_per_cell` 3 makes it no YOLOX any more.
    `offset`: where the middle of a box lies, in strides from the corner of its cell.
    """
    number = np.float16 if half else np.float32
    box = np.array([offset, offset, 0.0, 0.0])  # one stride wide and high
    weights = [_weight("picked", np.array([c % 3 for c in range(classes)]), np.int64)]
    nodes, lates = [], []
    slow, late = _slow("images", slow_layers)
    nodes += slow
    for stride in STRIDES_PX:
        n = f"_{stride}"
        kernel = np.zeros((3, 3, stride, stride))
        kernel[range(3), range(3)] = (9.0 if logits else 1.0) / (stride * stride * 255)
        weights.append(_weight(f"mean{n}", kernel, number))
        weights.append(_weight(f"box{n}", box.reshape(1, 4, 1, 1), number))
        weights.append(_weight(f"none{n}", np.zeros((1, 4, 1, 1)), number))
        nodes += [
            _node(
                "Conv", ["images", f"mean{n}"], f"bright{n}", strides=[stride] * 2, kernel_shape=[stride] * 2
            ),
            _node("Gather", [f"bright{n}", "picked"], f"classes{n}", axis=1),
            _node("ReduceMax", [f"bright{n}"], f"object{n}", axes=[1], keepdims=1),
            _node("Concat", [f"object{n}"] * 4, f"four{n}", axis=1),
            _node("Mul", [f"four{n}", f"none{n}"], f"still{n}"),
            _node("Add", [f"still{n}", f"box{n}"], f"xywh{n}"),
            _node("Concat", [f"xywh{n}", f"object{n}", f"classes{n}"], f"map{n}", axis=1),
        ]
        rows = -1 if frozen is None else (frozen[0] // stride) * (frozen[1] // stride)
        weights.append(_weight(f"flat_shape{n}", np.array([0, 5 + classes, rows]), np.int64))
        nodes.append(_node("Reshape", [f"map{n}", f"flat_shape{n}"], f"flat{n}"))
        lates.append(f"flat{n}")
    nodes.append(_node("Concat", lates * anchors_per_cell, "columns", axis=2))
    nodes.append(_node("Transpose", ["columns"], "rows", perm=[0, 2, 1]))
    last = "rows"
    if decoded:
        assert frozen is not None
        weights += _pixel_weights(frozen, 5 + classes, number)
        nodes += [_node("Mul", ["rows", "scale"], "scaled"), _node("Add", ["scaled", "shift"], "pixels")]
        last = "pixels"
    nodes.append(_node("Add", [last, late], "output"))
    size: Sequence[int | str] = ["H", "W"] if frozen is None else [frozen[1], frozen[0]]
    return _write(
        path,
        nodes,
        [*weights, *_slow_weights(slow_channels, number)],
        inputs={"images": ["N" if frozen is None else 1, 3, *size]},
        outputs={"output": ["N", "A", 5 + classes]},
        half=half,
        opset=opset,
    )


def write_yunet(path: Path, *, slow_layers: int = 0) -> Path:
    """A model that sees a face of exactly a cell's size wherever a cell of stride 8, 16 or 32 is bright:
    class = objectness = mean / 255."""
    slow, late = _slow("input", slow_layers)
    nodes, weights = [*slow], [*_slow_weights()]
    outputs: dict[str, Sequence[int | str]] = {}
    for stride in STRIDES_PX:
        n = f"_{stride}"
        weights.append(_weight(f"mean{n}", np.full((1, 3, stride, stride), 1 / (3 * stride * stride * 255))))
        weights.append(_weight(f"box{n}", np.array([0.5, 0.5, 0.0, 0.0])))
        weights.append(_weight(f"column{n}", np.array([0, -1, 1]), np.int64))
        weights.append(_weight(f"zero{n}", np.zeros(1)))
        nodes += [
            _node("Conv", ["input", f"mean{n}"], f"map{n}", strides=[stride] * 2, kernel_shape=[stride] * 2),
            _node("Reshape", [f"map{n}", f"column{n}"], f"bright{n}"),
            _node("Add", [f"bright{n}", late], f"cls{n}"),
            _node("Identity", [f"bright{n}"], f"obj{n}"),
            _node("Mul", [f"bright{n}", f"zero{n}"], f"still{n}"),
            _node("Concat", [f"still{n}"] * 4, f"four{n}", axis=2),
            _node("Add", [f"four{n}", f"box{n}"], f"bbox{n}"),
            _node("Concat", [f"still{n}"] * 10, f"kps{n}", axis=2),
        ]
        for head, columns in {"cls": 1, "obj": 1, "bbox": 4, "kps": 10}.items():
            outputs[f"{head}{n}"] = ["N", f"cells{n}", columns]
    return _write(path, nodes, weights, inputs={"input": ["N", 3, "H", "W"]}, outputs=outputs)


def write_other_model(
    path: Path, *, outputs: dict[str, Sequence[int | str]] | None = None, element: int = TensorProto.FLOAT
) -> Path:
    """A sound ONNX model of no family that is read here; every output is zeros of the declared sizes (1 for a
    free one)."""
    wanted = outputs or {"out": [1, 3, "H", "W"]}
    nodes = [_node("ConstantOfShape", [f"{name}_shape"], name) for name in wanted]
    weights = [
        _weight(f"{name}_shape", np.array([d if isinstance(d, int) else 1 for d in dims]), np.int64)
        for name, dims in wanted.items()
    ]
    return _write(path, nodes, weights, inputs={"images": [1, 3, "H", "W"]}, outputs=wanted, element=element)


def _pixel_weights(size: Size, columns: int, number: type) -> list[Weight]:
    """`scale` and `shift`: rows · scale + shift is the decoded row of a box that fills its cell."""
    cells = cells_of(size)
    scale, shift = np.ones((1, len(cells), columns)), np.zeros((1, len(cells), columns))
    scale[0, :, :2] = cells.strides_px
    shift[0, :, :2] = cells.corners * cells.strides_px
    shift[0, :, 2:4] = cells.strides_px  # exp(0) strides; the row holds 0
    return [_weight("scale", scale, number), _weight("shift", shift, number)]


def _slow(source: str, layers: int) -> tuple[list[Node], str]:
    """Convolutions that cost time and give the name of a zero to add."""
    if not layers:
        return [], "nothing"
    nodes = [_node("Conv", [source, "widen"], "slow0", pads=[1, 1, 1, 1])]
    nodes += [_node("Conv", [f"slow{i}", "blur"], f"slow{i + 1}", pads=[1, 1, 1, 1]) for i in range(layers)]
    nodes += [
        _node("ReduceMean", [f"slow{layers}"], "mean_slow", keepdims=0),
        _node("Mul", ["mean_slow", "nothing"], "late"),
    ]
    return nodes, "late"


def _slow_weights(channels: int = 32, number: type = np.float32) -> list[Weight]:
    return [
        _weight("nothing", np.zeros(1), number),
        _weight("widen", np.full((channels, 3, 3, 3), 1 / 27), number),
        _weight("blur", np.full((channels, channels, 3, 3), 1 / (9 * channels)), number),
    ]


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> Node:
    return helper.make_node(kind, list(inputs), [output], **attributes)


def _weight(
    name: str, values: NDArray[np.floating] | NDArray[np.integer], number: type = np.float32
) -> Weight:
    return numpy_helper.from_array(np.asarray(values).astype(number), name)


def _write(
    path: Path,
    nodes: list[Node],
    weights: list[Weight],
    *,
    inputs: dict[str, Sequence[int | str]],
    outputs: dict[str, Sequence[int | str]],
    half: bool = False,
    element: int = TensorProto.FLOAT,
    opset: int = OPSET,
) -> Path:
    kind = TensorProto.FLOAT16 if half else element
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, kind, list(dims)) for name, dims in inputs.items()],
        [helper.make_tensor_value_info(name, kind, list(dims)) for name, dims in outputs.items()],
        initializer=[w for w in weights if w.name in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    path.write_bytes(model.SerializeToString())
    return path
