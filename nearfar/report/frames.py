"""`frames.jsonl` as columns: read once, line by line, so that a long run costs memory per number and not per line.

A damaged or cut-off line is skipped and counted. Only the worst frames keep their whole line.
"""

import heapq
import itertools
import json
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.telemetry.worst import KEPT, Badness, badness
from nearfar.report.clock import mended
from nearfar.report.numbers import number, unix_ms

Line = dict[str, Any]

OUTCOMES = ("far", "near", "tracked", "missed", "shed", "gated")
"""What became of a frame; its index is the number in `Frames.outcome`."""

PARTS = (
    "wait",
    "encode",
    "network",
    "queue",
    "decode",
    "detect",
    "return",
    "hold",
    "commit",
    "unexplained",
)
"""Where the time of an answer went, as the report shows it; the columns of `Frames.parts`."""

_PART_OF = {
    "slot_wait": "wait",
    "planned_wait": "wait",
    "start": "wait",
    "encode": "encode",
    "transmission_est": "network",
    "propagation_est": "network",
    "network_queue_est": "network",
    "worker_queue": "queue",
    "batch_wait": "queue",
    "worker_other": "queue",
    "decode": "decode",
    "detect": "detect",
    "track": "detect",
    "release": "return",
    "hold": "hold",
    "commit": "commit",
}
_PART_INDEX = {name: PARTS.index(part) for name, part in _PART_OF.items()}
_UNEXPLAINED = PARTS.index("unexplained")


def parts_of(timing: Mapping[str, float]) -> list[float]:
    """ms per part of PARTS; what this version does not know is unexplained. The age of a tracked answer is no part."""
    parts = [0.0] * len(PARTS)
    for name, ms in timing.items():
        if name == "age":
            continue
        parts[_PART_INDEX.get(name, _UNEXPLAINED)] += number(ms)
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTime:
    """Frames answered near or far by their deadline, of those that count: captured, paced and not gated."""

    frames: int
    of: int

    @property
    def rate(self) -> float | None:
        return self.frames / self.of if self.of else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frames:
    """N frames in the order they were captured. `unix_ms` float64, `outcome` uint8 into OUTCOMES, `latency_ms`
    float32 (NaN without an answer), `on_time`, `paced` and `late_far` bool, `sent_bytes` int32 (0 = no picture was
    sent), `stream` uint16 into `streams`, `parts` float32 [N, len(PARTS)] in ms."""

    unix_ms: NDArray[np.float64]
    outcome: NDArray[np.uint8]
    latency_ms: NDArray[np.float32]
    deadline_ms: NDArray[np.float32]
    on_time: NDArray[np.bool_]
    paced: NDArray[np.bool_]
    late_far: NDArray[np.bool_]
    sent_bytes: NDArray[np.int32]
    stream: NDArray[np.uint16]
    parts: NDArray[np.float32]
    streams: tuple[str, ...]
    reasons: Mapping[str, Counter[str]]
    """Per outcome: how often each reason was given."""
    worst: tuple[Line, ...]
    damaged: int

    def __len__(self) -> int:
        return len(self.unix_ms)

    def of(self, outcome: str) -> NDArray[np.bool_]:
        """Which frames ended as `outcome`."""
        return np.asarray(self.outcome == OUTCOMES.index(outcome))

    def count(self, outcome: str) -> int:
        return int(np.count_nonzero(self.of(outcome)))

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which frames have an answer, and so a latency."""
        return np.asarray(~np.isnan(self.latency_ms))

    def timely(self, among: NDArray[np.bool_] | None = None) -> OnTime:
        """How many were on time, of all or of those marked."""
        counts = self.paced & ~self.of("gated")
        if among is not None:
            counts = counts & among
        return OnTime(frames=int(np.count_nonzero(self.on_time & counts)), of=int(np.count_nonzero(counts)))


@dataclass(slots=True)
class _Columns:
    unix_ms: "array[float]" = field(default_factory=lambda: array("d"))
    outcome: "array[int]" = field(default_factory=lambda: array("B"))
    latency_ms: "array[float]" = field(default_factory=lambda: array("f"))
    deadline_ms: "array[float]" = field(default_factory=lambda: array("f"))
    flags: "array[int]" = field(default_factory=lambda: array("B"))
    sent_bytes: "array[int]" = field(default_factory=lambda: array("i"))
    stream: "array[int]" = field(default_factory=lambda: array("H"))
    parts: "array[float]" = field(default_factory=lambda: array("f"))


_ON_TIME, _PACED, _LATE_FAR = 1, 2, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    unix_ms: float
    outcome: int
    latency_ms: float
    deadline_ms: float
    flags: int
    sent_bytes: int
    stream: str
    reason: str
    parts: list[float]
    badness: Badness | None

    @classmethod
    def of(cls, line: Line) -> "_Row":
        """Everything that can fail, before a column is touched."""
        answered = line["outcome"] == "answered"
        latency_ms = number(line["latency_ms"]) if answered else float("nan")
        deadline_ms = number(line["deadline_ms"]) if answered else float("nan")
        encoding = line["encoding"]
        if not isinstance(line["stream"], str) or not isinstance(line["reason"], str):
            raise TypeError("stream and reason are words")
        return cls(
            unix_ms=unix_ms(line["captured_unix_ms"]),
            outcome=OUTCOMES.index(line["answered_by"] if answered else line["outcome"]),
            latency_ms=latency_ms,
            deadline_ms=deadline_ms,
            flags=_ON_TIME * bool(line["on_time"])
            | _PACED * bool(line["paced"])
            | _LATE_FAR * bool(line["late_far"]),
            sent_bytes=0 if encoding is None else max(0, min(int(encoding["bytes"]), 2**31 - 1)),
            stream=line["stream"],
            reason=line["reason"],
            parts=parts_of(line["timing"]),
            badness=badness(
                stream=line["stream"],
                seq=int(line["seq"]),
                answered_by=line["answered_by"],
                status=str(line["status"]),
                latency_ms=latency_ms,
                deadline_ms=deadline_ms,
            )
            if answered
            else None,
        )


class _Reader:
    def __init__(self, worst: int) -> None:
        self.columns = _Columns()
        self.streams: dict[str, int] = {}
        self.reasons: dict[str, Counter[str]] = {name: Counter() for name in OUTCOMES}
        self.damaged = 0
        self._most = worst
        self._worst: list[
            tuple[Badness, int, Line]
        ] = []  # numbered: of equals, lines themselves have no order
        self._number = itertools.count()

    def take(self, text: bytes) -> None:
        try:
            line = json.loads(text)
            row = _Row.of(line)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            self.damaged += 1
            return
        columns = self.columns
        columns.unix_ms.append(row.unix_ms)
        columns.outcome.append(row.outcome)
        columns.latency_ms.append(row.latency_ms)
        columns.deadline_ms.append(row.deadline_ms)
        columns.flags.append(row.flags)
        columns.sent_bytes.append(row.sent_bytes)
        columns.stream.append(self.streams.setdefault(row.stream, len(self.streams)) & 0xFFFF)
        columns.parts.extend(row.parts)
        if row.reason:
            self.reasons[OUTCOMES[row.outcome]][row.reason] += 1
        if row.badness is not None:
            self._rank(row.badness, line)

    def _rank(self, rank: Badness, line: Line) -> None:
        if len(self._worst) < self._most:
            heapq.heappush(self._worst, (rank, next(self._number), line))
        elif rank > self._worst[0][0]:
            heapq.heapreplace(self._worst, (rank, next(self._number), line))

    @property
    def worst(self) -> Iterator[Line]:
        return (line for _, _, line in sorted(self._worst, key=lambda entry: entry[0], reverse=True))


def read_frames(path: Path, *, worst: int = KEPT) -> Frames:
    """The frames of a run directory's `frames.jsonl`; none if there is no such file. Raises OSError."""
    reader = _Reader(worst)
    if path.exists():
        with path.open("rb") as file:
            for text in file:
                if text.strip():
                    reader.take(text)
    columns = reader.columns
    times = mended(np.array(columns.unix_ms, np.float64))
    order = np.argsort(times, kind="stable")
    flags = np.array(columns.flags, np.uint8)[order]
    parts = np.array(columns.parts, np.float32).reshape(-1, len(PARTS))
    return Frames(
        unix_ms=times[order],
        outcome=np.array(columns.outcome, np.uint8)[order],
        latency_ms=np.array(columns.latency_ms, np.float32)[order],
        deadline_ms=np.array(columns.deadline_ms, np.float32)[order],
        on_time=(flags & _ON_TIME) > 0,
        paced=(flags & _PACED) > 0,
        late_far=(flags & _LATE_FAR) > 0,
        sent_bytes=np.array(columns.sent_bytes, np.int32)[order],
        stream=np.array(columns.stream, np.uint16)[order],
        parts=parts[order],
        streams=tuple(reader.streams),
        reasons=reader.reasons,
        worst=tuple(reader.worst),
        damaged=reader.damaged,
    )
