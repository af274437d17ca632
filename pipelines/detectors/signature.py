"""What an ONNX file says of itself before any engine loads it: inputs, outputs, their types and sizes, opset.

It answers "what is this file?" for a person who gave the wrong one, so it never needs the model to run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pipelines.detectors.onnx_fields import fields, first

# Field numbers of onnx.proto, which the format fixes for ever.
_MODEL_IR, _MODEL_GRAPH, _MODEL_OPSET = 1, 7, 8
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 5, 11, 12
_TENSOR_NAME = 8
_VALUE_NAME, _VALUE_TYPE, _TYPE_TENSOR, _TENSOR_ELEMENT, _TENSOR_SHAPE, _SHAPE_DIM = 1, 2, 1, 1, 2, 1
_DIM_VALUE = 1
_MOST_LISTED = 6
_STANDARD_DOMAINS = (b"", b"ai.onnx")
_ELEMENTS = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    16: "bfloat16",
}


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output. `dims`: None for a size that is free; `dims` itself None when not declared."""

    name: str
    element: str
    dims: tuple[int | None, ...] | None

    def __str__(self) -> str:
        if self.dims is None:
            return f"{self.name} {self.element}"
        sizes = ", ".join("?" if d is None else str(d) for d in self.dims)
        return f"{self.name} {self.element} [{sizes}]"


@dataclass(frozen=True, slots=True)
class Signature:
    """`opset` and `ir_version` are 0 when the file does not say."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    opset: int
    ir_version: int

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(port.name for port in self.outputs)

    @property
    def declared_size(self) -> tuple[int, int] | None:
        """(width_px, height_px) the file is frozen at; None where it leaves either free."""
        dims = self.inputs[0].dims if self.inputs else None
        if dims is None or len(dims) != 4 or not dims[2] or not dims[3]:
            return None
        return dims[3], dims[2]

    @property
    def one_at_a_time(self) -> bool:
        """Whether the first dimension of its input, the batch, is fixed at 1."""
        dims = self.inputs[0].dims if self.inputs else None
        return dims is not None and dims[:1] == (1,)

    @property
    def batch_words(self) -> str:
        """The same for a person who wanted more."""
        return f"takes {self.inputs[0]}: its first dimension, the batch, is fixed at 1: export it with a dynamic batch"

    def seen(self, shapes: Mapping[str, tuple[int, ...]]) -> "Signature":
        """The same with the sizes of outputs as a run gave them."""
        outputs = tuple(replace(p, dims=shapes.get(p.name, p.dims)) for p in self.outputs)
        return replace(self, outputs=outputs)

    def __str__(self) -> str:
        return f"inputs: {_listed(self.inputs)}; outputs: {_listed(self.outputs)}"


def read_signature(model: bytes) -> Signature:
    """The signature of an ONNX file. Raises Rejected where its bytes are damaged."""
    view = memoryview(model)
    ir_version = opset = 0
    for field in fields(view):
        if field.number == _MODEL_IR:
            ir_version = field.value
        elif field.number == _MODEL_OPSET and bytes(first(field.body, _OPSET_DOMAIN)) in _STANDARD_DOMAINS:
            opset = _number(field.body, _OPSET_VERSION)
    graph = first(view, _MODEL_GRAPH)
    weights = {bytes(first(f.body, _TENSOR_NAME)) for f in fields(graph) if f.number == _GRAPH_INITIALIZER}
    return Signature(
        tuple(
            _port(f.body)
            for f in fields(graph)
            if f.number == _GRAPH_INPUT and bytes(first(f.body, _VALUE_NAME)) not in weights
        ),
        tuple(_port(f.body) for f in fields(graph) if f.number == _GRAPH_OUTPUT),
        opset,
        ir_version,
    )


def _listed(ports: tuple[Port, ...]) -> str:
    more = f" and {len(ports) - _MOST_LISTED} more" if len(ports) > _MOST_LISTED else ""
    return (", ".join(map(str, ports[:_MOST_LISTED])) or "none") + more


def _port(value: memoryview) -> Port:
    tensor = first(first(value, _VALUE_TYPE), _TYPE_TENSOR)
    code = _number(tensor, _TENSOR_ELEMENT)
    dims: tuple[int | None, ...] | None = None
    for field in fields(tensor):
        if field.number == _TENSOR_SHAPE:
            dims = tuple(
                _number(dim.body, _DIM_VALUE) or None
                for dim in fields(field.body)
                if dim.number == _SHAPE_DIM
            )
    name = bytes(first(value, _VALUE_NAME)).decode("utf-8", "replace")
    return Port(name, _ELEMENTS.get(code, f"type {code}"), dims)


def _number(message: memoryview, number: int) -> int:
    return next((f.value for f in fields(message) if f.number == number), 0)
