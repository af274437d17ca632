"""Rewrites the declared shapes of an ONNX file in memory, without the `onnx` package.

Exporters often freeze the shape of the example they traced (CenterFace declares [10, 3, 32, 32]) although the
network is convolutional; the engine then refuses every other size. `free_shapes` forgets batch, height and
width of the picture inputs and the sizes of outputs and intermediates, which are inferred anew. Inputs
that only repeat a weight are dropped, so that the engine may fold them. Weights and nodes are never touched.

Field numbers are those of onnx.proto (ModelProto.graph 7; GraphProto.initializer 5, input 11, output 12,
value_info 13; TensorProto.name 8; ValueInfoProto.name 1, type 2; TypeProto.tensor_type 1;
Tensor.shape 2; TensorShapeProto.dim 1): the format fixes them for ever.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pipelines.errors import Rejected

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT, _GRAPH_VALUE_INFO = 1, 5, 11, 12, 13
_TENSOR_NAME, _VALUE_NAME, _VALUE_TYPE, _TYPE_TENSOR, _TENSOR_SHAPE, _SHAPE_DIM = 8, 1, 2, 1, 2, 1
_CHANNEL_AXIS = 1
_PICTURE_RANK = 4


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message: its number, its payload (empty unless length-delimited) and all its bytes."""

    number: int
    body: memoryview
    raw: memoryview


def free_shapes(model: bytes) -> bytes:
    """`model` with batch, height and width of its rank-4 inputs unknown. Raises Rejected when it is no ONNX."""
    view = memoryview(model)
    graphs = [f for f in _fields(view) if f.number == _MODEL_GRAPH]
    if len(graphs) != 1 or not any(f.number == _GRAPH_NODE for f in _fields(graphs[0].body)):
        raise Rejected("no graph inside")
    return _rewrite(view, {_MODEL_GRAPH: _free_graph})


def _free_graph(graph: memoryview) -> bytes:
    weights = {_name(f.body, _TENSOR_NAME) for f in _fields(graph) if f.number == _GRAPH_INITIALIZER}

    def free_input(value: memoryview) -> bytes | None:
        return None if _name(value, _VALUE_NAME) in weights else _with_shape(value, _free_picture_axes)

    return _rewrite(
        graph,
        {
            _GRAPH_INPUT: free_input,
            _GRAPH_OUTPUT: lambda value: _with_shape(value, _free_all_axes),
            _GRAPH_VALUE_INFO: lambda _: None,
        },
    )


def _with_shape(value: memoryview, change: Callable[[memoryview], bytes]) -> bytes:
    def in_tensor(tensor: memoryview) -> bytes:
        return _rewrite(tensor, {_TENSOR_SHAPE: change})

    def in_type(kind: memoryview) -> bytes:
        return _rewrite(kind, {_TYPE_TENSOR: in_tensor})

    return _rewrite(value, {_VALUE_TYPE: in_type})


def _free_picture_axes(shape: memoryview) -> bytes:
    dims = [f for f in _fields(shape) if f.number == _SHAPE_DIM]
    if len(dims) != _PICTURE_RANK:
        return bytes(shape)
    return b"".join(
        bytes(dim.raw) if axis == _CHANNEL_AXIS else _delimited(_SHAPE_DIM, b"")
        for axis, dim in enumerate(dims)
    )


def _free_all_axes(shape: memoryview) -> bytes:
    return _rewrite(shape, {_SHAPE_DIM: lambda _: b""})


def _rewrite(message: memoryview, changes: Mapping[int, Callable[[memoryview], bytes | None]]) -> bytes:
    """The message with each field in `changes` replaced by what its function returns (None: left out)."""
    parts: list[bytes | memoryview] = []
    for field in _fields(message):
        change = changes.get(field.number)
        if change is None:
            parts.append(field.raw)
        elif (body := change(field.body)) is not None:
            parts.append(_delimited(field.number, body))
    return b"".join(parts)


def _name(message: memoryview, number: int) -> bytes:
    return next((bytes(f.body) for f in _fields(message) if f.number == number), b"")


def _fields(message: memoryview) -> Iterator[_Field]:
    at = 0
    while at < len(message):
        start = at
        key, at = _read_varint(message, at)
        wire = key & 7
        body = message[at:at]
        if wire == _VARINT:
            _, at = _read_varint(message, at)
        elif wire == _BYTES:
            length, at = _read_varint(message, at)
            body = message[at : at + length]
            at += length
        elif wire in {_FIXED32, _FIXED64}:
            at += 4 if wire == _FIXED32 else 8
        else:
            raise Rejected(f"wire type {wire} at byte {start}")
        if at > len(message):
            raise Rejected(f"cut off at byte {len(message)}")
        yield _Field(key >> 3, body, message[start:at])


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            break
    raise Rejected(f"no number at byte {at}")


def _delimited(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
