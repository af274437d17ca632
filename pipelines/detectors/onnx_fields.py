"""The bytes of an ONNX file as fields, without the `onnx` package: read by number, never past their end.

An ONNX file is one protobuf message; `fields` walks one level of it and copies nothing. Damaged bytes raise
Rejected with the place of the damage.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.errors import Rejected

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_WIDTH_BYTES = {FIXED32: 4, FIXED64: 8}
_WORD_BITS = 63


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: its number, its value (0 unless a varint), its payload (empty unless
    length-delimited) and all its bytes."""

    number: int
    value: int
    body: memoryview
    raw: memoryview


def fields(message: memoryview) -> Iterator[Field]:
    """Every field of `message` in order. Raises Rejected where it is damaged."""
    at = 0
    while at < len(message):
        start = at
        key, at = _read_varint(message, at)
        wire, value, body = key & 7, 0, message[at:at]
        if wire == VARINT:
            value, at = _read_varint(message, at)
        elif wire == BYTES:
            length, at = _read_varint(message, at)
            body = message[at : at + length]
            at += length
        elif wire in _WIDTH_BYTES:
            at += _WIDTH_BYTES[wire]
        else:
            raise Rejected(f"wire type {wire} at byte {start}")
        if at > len(message):
            raise Rejected(f"cut off at byte {len(message)}")
        yield Field(key >> 3, value, body, message[start:at])


def first(message: memoryview, number: int) -> memoryview:
    """The payload of the first field with `number`; empty when there is none."""
    return next((f.body for f in fields(message) if f.number == number), message[:0])


def delimited(number: int, body: bytes) -> bytes:
    """A length-delimited field as bytes."""
    return _varint(number << 3 | BYTES) + _varint(len(body)) + body


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _WORD_BITS:
            break
    raise Rejected(f"no number at byte {at}")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
