"""Rewrites the declared shapes of an ONNX file in memory.

Exporters often freeze the shape of the example they traced (CenterFace declares [10, 3, 32, 32]) although the
network is convolutional; the engine then refuses every other size. `free_shapes` forgets batch, height and
width of the picture inputs and the sizes of outputs and intermediates, which are inferred anew. Inputs
that only repeat a weight are dropped, so that the engine may fold them. Weights and nodes are never touched.
"""

from collections.abc import Callable, Mapping

from pipelines.detectors.onnx_fields import delimited, fields, first
from pipelines.errors import Rejected

# Field numbers of onnx.proto, which the format fixes for ever.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT, _GRAPH_VALUE_INFO = 1, 5, 11, 12, 13
_TENSOR_NAME, _VALUE_NAME, _VALUE_TYPE, _TYPE_TENSOR, _TENSOR_SHAPE, _SHAPE_DIM = 8, 1, 2, 1, 2, 1
_CHANNEL_AXIS = 1
_PICTURE_RANK = 4


def free_shapes(model: bytes) -> bytes:
    """`model` with batch, height and width of its rank-4 inputs unknown. Raises Rejected when it is no ONNX."""
    view = memoryview(model)
    graphs = [f for f in fields(view) if f.number == _MODEL_GRAPH]
    if len(graphs) != 1 or not any(f.number == _GRAPH_NODE for f in fields(graphs[0].body)):
        raise Rejected("no graph inside")
    return _rewrite(view, {_MODEL_GRAPH: _free_graph})


def _free_graph(graph: memoryview) -> bytes:
    weights = {bytes(first(f.body, _TENSOR_NAME)) for f in fields(graph) if f.number == _GRAPH_INITIALIZER}

    def free_input(value: memoryview) -> bytes | None:
        if bytes(first(value, _VALUE_NAME)) in weights:
            return None
        return _with_shape(value, _free_picture_axes)

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
    dims = [f for f in fields(shape) if f.number == _SHAPE_DIM]
    if len(dims) != _PICTURE_RANK:
        return bytes(shape)
    return b"".join(
        bytes(dim.raw) if axis == _CHANNEL_AXIS else delimited(_SHAPE_DIM, b"")
        for axis, dim in enumerate(dims)
    )


def _free_all_axes(shape: memoryview) -> bytes:
    return _rewrite(shape, {_SHAPE_DIM: lambda _: b""})


def _rewrite(message: memoryview, changes: Mapping[int, Callable[[memoryview], bytes | None]]) -> bytes:
    """The message with each field in `changes` replaced by what its function returns (None: left out)."""
    parts: list[bytes | memoryview] = []
    for field in fields(message):
        change = changes.get(field.number)
        if change is None:
            parts.append(field.raw)
        elif (body := change(field.body)) is not None:
            parts.append(delimited(field.number, body))
    return b"".join(parts)
