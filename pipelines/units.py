"""Values people write with their unit, as pydantic types: `100ms`, `8GiB`, `192x160`, `0.5%`.

Inside they are plain numbers: int microseconds, int bytes, (width_px, height_px), float 0..1; dumped they
are text again, and that text reads back to the same value. A bare number is refused with the spelling that
was probably meant: nobody should have to remember whether a timeout counts seconds or milliseconds.
Defaults in code are made by `duration("100ms")` and `size("1GiB")`, so they pass the same gate.
"""

import re
from fractions import Fraction as Exact
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(_NUMBER + r"\s*(us|ms|s|m|h|d)")
_SIZE = re.compile(_NUMBER + r"\s*(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)")
_EXTENT = re.compile(r"([1-9]\d*)\s*x\s*([1-9]\d*)")
_PERCENT = re.compile(_NUMBER + r"\s*%")

_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_BYTES = {
    "B": 1,
    "kB": 10**3,
    "KiB": 2**10,
    "MB": 10**6,
    "MiB": 2**20,
    "GB": 10**9,
    "GiB": 2**30,
    "TB": 10**12,
    "TiB": 2**40,
}
_MAX_EXTENT_PX = 65_535


class Microseconds(int):
    """A duration that went through `duration`; only the type tells it from a bare number."""


class ByteCount(int):
    """A size that went through `size`."""


def duration(text: str) -> Microseconds:
    """`100ms`, `1.5s`, `2h`, `30d` as int microseconds. Raises ValueError with the right spelling."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError("must be a duration with its unit, like 100ms, 1.5s, 5m, 2h or 30d")
    return Microseconds(round(Exact(match[1]) * _US[match[2]]))


def size(text: str) -> ByteCount:
    """`8GiB`, `200MB`, `4096B` as int bytes (kB, MB, GB decimal; KiB, MiB, GiB binary). Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("must be a size with its unit, like 512KiB, 200MB or 8GiB")
    return ByteCount(round(Exact(match[1]) * _BYTES[match[2]]))


def extent(text: str) -> tuple[int, int]:
    """`192x160` as (width_px, height_px), each 1..65535. Raises ValueError."""
    match = _EXTENT.fullmatch(text.strip())
    if match is None or max(int(match[1]), int(match[2])) > _MAX_EXTENT_PX:
        raise ValueError("must be WIDTHxHEIGHT in pixels, like 192x160")
    return int(match[1]), int(match[2])


def format_duration(value_us: int) -> str:
    """The shortest exact spelling: the largest unit that divides it (`1500000` → `1500ms`)."""
    return _format(value_us, _US, zero="0ms")


def format_size(value_bytes: int) -> str:
    """The largest unit that divides it (`1073741824` → `1GiB`)."""
    return _format(value_bytes, _BYTES, zero="0B")


def format_extent(value_px: tuple[int, int]) -> str:
    return f"{value_px[0]}x{value_px[1]}"


def _format(value: int, units: dict[str, int], *, zero: str) -> str:
    if value == 0:
        return zero
    unit = max((u for u in units if value % units[u] == 0), key=lambda u: units[u])
    return f"{value // units[unit]}{unit}"


LONGEST_US = 3650 * 86_400 * 1_000_000
LARGEST_BYTES = 1 << 60
_LONGEST_TEXT = 40
"""A number that takes more can only be too large, and reading it would take long."""


def bounded_duration(text: str) -> Microseconds:
    """As `duration`, and at most 3650d: what a clock, a file or a database can hold. Raises ValueError."""
    if len(text) > _LONGEST_TEXT or (read_us := duration(text)) > LONGEST_US:
        raise ValueError("a duration is at most 3650d")
    return read_us


def _read_duration(value: Any) -> Microseconds:
    if isinstance(value, Microseconds):
        return value
    if isinstance(value, str):
        return bounded_duration(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"a duration needs its unit: write {value}ms (or {value}s)")  # noqa: TRY004 pydantic wants ValueError
    return duration("")


def _read_size(value: Any) -> ByteCount:
    if isinstance(value, ByteCount):
        return value
    if isinstance(value, str):
        if len(value) > _LONGEST_TEXT or (read_bytes := size(value)) > LARGEST_BYTES:
            raise ValueError("a size is at most 1048576TiB")
        return read_bytes
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"a size needs its unit: write {value}MiB (or {value}B)")  # noqa: TRY004 pydantic wants ValueError
    return size("")


def _read_extent(value: Any) -> tuple[int, int]:
    if isinstance(value, tuple) and len(value) == 2:
        return extent(format_extent((value[0], value[1])))
    if isinstance(value, list) and len(value) == 2:
        raise ValueError(f"write {value[0]}x{value[1]}")
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"needs width and height: write {value}x{value}")  # noqa: TRY004 pydantic wants ValueError
    return extent(value if isinstance(value, str) else "")


def _read_fraction(value: Any) -> float:
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value.strip())):
        value = float(Exact(match[1]) / 100)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a fraction, like 0.25 or 25%")
    if 1 < value <= 100:
        raise ValueError(f"must be within 0 and 1: write {value:g}% or {value / 100:g}")
    if not 0 <= value <= 1:
        raise ValueError("must be within 0 and 1 (0% and 100%)")
    return float(value)


Duration = Annotated[
    int,
    BeforeValidator(_read_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\d+(\.\d+)?\s*(us|ms|s|m|h|d)$",
            "description": "a duration with its unit",
            "x-type": "duration",
            "x-units": "us ms s m h d",
            "examples": ["100ms", "1.5s", "72h"],
        }
    ),
]
"""int microseconds."""

Size = Annotated[
    int,
    BeforeValidator(_read_size),
    PlainSerializer(format_size, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\d+(\.\d+)?\s*(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)$",
            "description": "bytes with their unit",
            "x-type": "size",
            "x-units": "B, kB MB GB TB (decimal), KiB MiB GiB TiB (binary)",
            "examples": ["64MiB", "200MB"],
        }
    ),
]
"""int bytes."""

Extent = Annotated[
    tuple[int, int],
    BeforeValidator(_read_extent),
    PlainSerializer(format_extent, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[1-9]\d*\s*x\s*[1-9]\d*$",
            "description": "WIDTHxHEIGHT",
            "x-type": "extent",
            "x-units": "px",
            "examples": ["192x160"],
        }
    ),
]
"""(width_px, height_px)."""

Fraction = Annotated[
    float,
    BeforeValidator(_read_fraction),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 1},
                {"type": "string", "pattern": r"^\d+(\.\d+)?\s*%$"},
            ],
            "description": "a fraction: a number within 0 and 1, or a percentage",
            "x-type": "fraction",
            "examples": [0.25, "25%"],
        }
    ),
]
"""float within 0 and 1."""
