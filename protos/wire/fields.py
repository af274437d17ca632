"""The fields of a serialised message, read by hand: what no library can be asked for without building it all.

A few bytes can claim millions of entries, and whoever builds an object for each holds up every other thread; so
fields are counted before anything is built. Damaged input raises Rejected, nothing else.
"""

from collections.abc import Iterator

from pipelines.errors import Rejected

Value = int | memoryview

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10
_SHORT = tuple(bytes((value,)) for value in range(0x80))


def whole(data: bytes | memoryview, key: int, at: int = 0) -> memoryview | None:
    """What is in the field of this `key` byte (number and wire type BYTES) if that begins at `at` and fills `data` to its
    end; else None."""
    if at >= len(data) or data[at] != key:
        return None
    size, at = varint(data, at + 1)
    return memoryview(data)[at:] if at + size == len(data) else None


def fields(data: memoryview, *, most: int) -> Iterator[tuple[int, Value]]:
    """Numbers and values; fixed-width fields, of which we have none, are skipped. Rejected beyond `most` fields."""
    at = 0
    for _ in range(most):
        if at >= len(data):
            return
        key = data[at]
        if key < 0x80:  # nearly always, and then a call costs more than the number
            at += 1
        else:
            key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = varint(data, at)
            yield number, value
        elif kind == BYTES:
            size, at = varint(data, at)
            if size > len(data) - at:
                raise Rejected(f"field {number} says {size} bytes and has {len(data) - at}")
            yield number, data[at : at + size]
            at += size
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
            if at > len(data):
                raise Rejected(f"field {number} is cut short")
        else:
            raise Rejected(f"field {number} has the unknown wire type {kind}")
    if at < len(data):
        raise Rejected(f"a message of more than {most} fields")


def check_count(data: memoryview, *, most: int) -> None:
    """Rejected if `data` has more than `most` fields, or is damaged."""
    for _ in fields(data, most=most):
        pass


def varint_bytes(value: int) -> bytes:
    if value < 0x80:
        return _SHORT[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number at `at` and where the next thing begins; Rejected if it is cut short or too long."""
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for place in range(_MOST_VARINT_BYTES):
        if at >= len(data):
            raise Rejected("a number is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise Rejected("a number has more than ten bytes")
