"""What front and engine say to each other: a fixed head, then a body. No pickle, and every length is judged before use.

    head: magic 4 bytes, kind u8, 3 bytes of zero, run u64, body length u32, little-endian

Pictures do not travel here: a run names where in the shared memory they lie. Boxes do, as columns. One message holds a
run of k ≥ 1 pictures, and its answer as many results.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from pipelines.detectors.base import Cancelled
from pipelines.errors import ConfigError, Fatal, NearfarError, Rejected
from pipelines.result import Detections

MAGIC = b"NFE1"
HEAD = struct.Struct("<4sB3xQI")
LARGEST_BODY_BYTES = 64 << 20
MOST_DIMENSIONS = 4
_PLACE = struct.Struct("<4sI4IQ")
_COUNT = struct.Struct("<I")
_CANCEL = struct.Struct("<IQ")
_BOX_BYTES, _SCORE_BYTES, _CLASS_BYTES = 16, 4, 2
_ERRORS: dict[str, type[NearfarError]] = {
    "rejected": Rejected,
    "cancelled": Cancelled,
    "config": ConfigError,
    "fatal": Fatal,
}
_NUMBERS = "biuf"


class MalformedMessageError(NearfarError):
    """What came is no message of this protocol: the other side cannot be trusted any more."""


class Say(IntEnum):
    """`LOAD`, `RUN` and `CANCEL` go to the engine, the others come back."""

    START = 1
    LOAD = 2
    READY = 3
    RUN = 4
    FOUND = 5
    FAILED = 6
    CANCEL = 7
    LOADED = 8


@dataclass(frozen=True, slots=True)
class Message:
    """`run` counts the runs of one slot; 0 where there is none."""

    say: Say
    run: int = 0
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Placed:
    """One picture in the shared memory: NumPy's word for its numbers (`|u1`), its shape, and its first byte."""

    numbers: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size_bytes(self) -> int:
        size = np.dtype(self.numbers).itemsize
        for side in self.shape:
            size *= side
        return size


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a detector says of itself once it is loaded; `max_batch` pictures it takes at a time, and why it takes
    no more, if it knows."""

    name: str
    labels: tuple[str, ...]
    input_size: tuple[int, int]
    sha256: str
    max_batch: int
    batch_limit: str = ""


_KNOWN = frozenset(int(say) for say in Say)


def pack(message: Message) -> bytes:
    """Raises ValueError for a body no reader would take."""
    if len(message.body) > LARGEST_BODY_BYTES:
        raise ValueError(f"a body of {len(message.body)} bytes: {LARGEST_BODY_BYTES} is the most")
    return HEAD.pack(MAGIC, message.say, message.run, len(message.body)) + message.body


def read_head(head: bytes) -> tuple[Say, int, int]:
    """(what, run, bytes of the body). Raises MalformedMessageError."""
    magic, say, run, size = HEAD.unpack(head)
    if magic != MAGIC or size > LARGEST_BODY_BYTES or say not in _KNOWN:
        raise MalformedMessageError(f"no head of a message: {head.hex()}")
    return Say(say), run, size


def pack_places(places: Sequence[Placed]) -> bytes:
    out = []
    for place in places:
        if len(place.shape) > MOST_DIMENSIONS:
            raise Rejected(f"a picture has at most {MOST_DIMENSIONS} dimensions, not {len(place.shape)}")
        sides = (*place.shape, 0, 0, 0, 0)[:MOST_DIMENSIONS]
        out.append(_PLACE.pack(place.numbers.encode(), len(place.shape), *sides, place.offset))
    return b"".join(out)


def read_places(body: bytes) -> list[Placed]:
    """Raises MalformedMessageError."""
    if not body or len(body) % _PLACE.size:
        raise MalformedMessageError(f"a run of {len(body)} bytes names no whole pictures")
    out = []
    for numbers, dimensions, *sides, offset in _PLACE.iter_unpack(body):
        word = numbers.rstrip(b"\0").decode("ascii", "replace")
        if dimensions > MOST_DIMENSIONS or not is_numbers(word):
            raise MalformedMessageError(f"no picture: {dimensions} dimensions of {word!r}")
        out.append(Placed(word, tuple(sides[:dimensions]), offset))
    return out


def is_numbers(word: str) -> bool:
    """Whether NumPy knows `word` as plain numbers: what has pointers or fields inside never crosses."""
    try:
        return np.dtype(word).kind in _NUMBERS
    except (TypeError, ValueError):
        return False


def pack_found(found: Sequence[Detections]) -> bytes:
    out = []
    for one in found:
        out += [
            _COUNT.pack(len(one)),
            np.ascontiguousarray(one.boxes, np.float32).tobytes(),
            np.ascontiguousarray(one.scores, np.float32).tobytes(),
            np.ascontiguousarray(one.class_ids, np.uint16).tobytes(),
            b"\0\0" * (len(one) % 2),  # the next columns begin at a multiple of 4 bytes
        ]
    return b"".join(out)


def read_found(body: bytes, labels: tuple[str, ...], *, pictures: int) -> list[Detections]:
    """One result for each of the run's `pictures`. Raises MalformedMessageError."""
    out: list[Detections] = []
    at = 0
    for _ in range(pictures):
        if len(body) - at < _COUNT.size:
            raise MalformedMessageError(f"{len(out)} results for {pictures} pictures")
        (count,) = _COUNT.unpack_from(body, at)
        at += _COUNT.size
        size = count * (_BOX_BYTES + _SCORE_BYTES + _CLASS_BYTES) + _CLASS_BYTES * (count % 2)
        if len(body) - at < size:
            raise MalformedMessageError(f"{count} boxes announced, and their columns are cut short")
        boxes = np.frombuffer(body, np.float32, count * 4, at).reshape(count, 4)
        scores = np.frombuffer(body, np.float32, count, at + count * _BOX_BYTES)
        class_ids = np.frombuffer(body, np.uint16, count, at + count * (_BOX_BYTES + _SCORE_BYTES))
        at += size
        out.append(Detections(boxes, scores, class_ids, labels))
    if at != len(body):
        raise MalformedMessageError(f"{len(body) - at} bytes after the last result")
    return out


def pack_loaded(loaded: Loaded) -> bytes:
    return json.dumps(
        {
            "name": loaded.name,
            "labels": loaded.labels,
            "input_size": loaded.input_size,
            "sha256": loaded.sha256,
            "max_batch": loaded.max_batch,
            "batch_limit": loaded.batch_limit,
        }
    ).encode()


def read_loaded(body: bytes) -> Loaded:
    """Raises MalformedMessageError."""
    value = read_json(body)
    try:
        width_px, height_px = value["input_size"]
        return Loaded(
            name=str(value["name"]),
            labels=tuple(map(str, value["labels"])),
            input_size=(int(width_px), int(height_px)),
            sha256=str(value["sha256"]),
            max_batch=max(1, int(value["max_batch"])),
            batch_limit=str(value["batch_limit"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedMessageError(f"a detector said of itself: {value}") from error


def pack_error(error: Exception) -> bytes:
    """What the front raises again; whatever nobody foresaw is Fatal, and names its type."""
    for word, kind in _ERRORS.items():
        if isinstance(error, kind):
            return json.dumps({"error": word, "text": str(error)}).encode()
    text = str(error) if isinstance(error, NearfarError) else f"{type(error).__name__}: {error}"
    return json.dumps({"error": "fatal", "text": text}).encode()


def read_error(body: bytes) -> NearfarError:
    """The error to raise. Raises MalformedMessageError."""
    value = read_json(body)
    return _ERRORS.get(str(value.get("error")), Fatal)(str(value.get("text", "")))


def pack_cancel(slot: int, run: int) -> bytes:
    return _CANCEL.pack(slot, run)


def read_cancel(body: bytes) -> tuple[int, int]:
    """(slot, run). Raises MalformedMessageError."""
    if len(body) != _CANCEL.size:
        raise MalformedMessageError(f"a cancel of {len(body)} bytes")
    slot, run = _CANCEL.unpack(body)
    return slot, run


def read_json(body: bytes) -> dict[str, Any]:
    """Raises MalformedMessageError."""
    try:
        value = json.loads(body)
    except ValueError as error:
        raise MalformedMessageError(f"no JSON: {body[:60]!r}") from error
    if not isinstance(value, dict):
        raise MalformedMessageError(f"no JSON object: {body[:60]!r}")
    return value
