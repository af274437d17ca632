"""netlab's JSON schedules: steps of a link's settings over time, in one of two shapes.

[{"t": s, "up": {}, "down": {}, "both": {}}], or {"repeat_s": s, "steps": [...]}. A key left out keeps its value.
An outage "drop" (or true) loses what crosses; "hold" stops the bottleneck, the queue waits.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearfar.simulation.link.capacity import Rates
from nearfar.simulation.link.trace import FAST_MBIT_PER_S, Direction, LinkTrace
from nearfar.simulation.steps import Steps
from pipelines.errors import DataFileError, Problem

_SIDES = {"up": ("up",), "down": ("down",), "both": ("up", "down")}
_START: Mapping[str, float] = {
    "delay_ms": 0.0,
    "jitter_ms": 0.0,
    "rate_mbit": FAST_MBIT_PER_S,
    "queue_ms": 100.0,
    "queue_bytes": 0.0,
    "loss": 0.0,
    "burst": 1.0,
    "drop": 0.0,
    "hold": 0.0,
}


LARGEST = 1e12
"""Of any number: µs of it stay exact, sums of it finite."""

_Wrong = Callable[[str], DataFileError]


@dataclass
class _Side:
    """Every setting of one direction at each step."""

    columns: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _START})

    def begin(self) -> None:
        for name, values in self.columns.items():
            values.append(values[-1] if values else _START[name])

    def set(self, name: str, value: float) -> None:
        self.columns[name][-1] = value


def read_schedule(text: str, path: Path, *, rtt_us: int) -> LinkTrace:
    """`rtt_us`: round trip until a step says otherwise. Raises DataFileError for what it cannot follow."""

    def wrong(words: str) -> DataFileError:
        return DataFileError(Problem(words, file=str(path)))

    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataFileError(
            Problem(f"is not JSON: {error.msg}", file=str(path), line=error.lineno)
        ) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists in lists
        raise wrong(f"is not JSON anybody writes: {error}") from error
    repeat_s = data.get("repeat_s") if isinstance(data, dict) else None
    steps = data.get("steps") if isinstance(data, dict) else data
    if not isinstance(steps, list) or not steps or not all(isinstance(s, dict) for s in steps):
        raise wrong("is JSON, but no schedule: a list of steps, each with t and up, down or both")
    sides = {"up": _Side(), "down": _Side()}
    times_us: list[int] = []
    for step in sorted(steps, key=lambda s: _number("t", s.get("t", 0), wrong)):
        at_us = round(_number("t", step.get("t", 0), wrong) * 1e6)
        if not times_us or at_us > times_us[-1]:
            times_us.append(at_us if times_us else 0)
            for side in sides.values():
                side.begin()
                if len(times_us) == 1:
                    side.set("delay_ms", rtt_us / 2000)
        for word, value in step.items():
            if word in ("t", "note"):
                continue
            if word not in _SIDES or not isinstance(value, dict):
                raise wrong(f"a step has `{word}`; it may have t, note, up, down, both")
            for name in _SIDES[word]:
                _apply(sides[name], value, wrong)
    period_us = None if repeat_s is None else round(_number("repeat_s", repeat_s, wrong) * 1e6)
    if period_us is not None and period_us <= times_us[-1]:
        raise wrong("repeat_s must be later than the last step")
    try:
        return LinkTrace(
            name=path.stem,
            up=_direction(sides["up"], times_us, period_us),
            down=_direction(sides["down"], times_us, period_us),
            described=f"schedule of {len(times_us)} steps",
        )
    except ValueError as error:
        raise wrong(f"carries nothing: {error}") from error


def _number(key: str, value: object, wrong: _Wrong, *, most: float = LARGEST) -> float:
    """`value` if it is a number from 0 to `most`: JSON as Python reads it knows NaN and Infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise wrong(f"a step has {key} {json.dumps(value)[:40]}; it is a number from 0 to {most:g}")
    return float(value)


def _apply(side: _Side, values: Mapping[str, Any], wrong: _Wrong) -> None:
    for key, value in values.items():
        if key == "outage":
            side.set("drop", float(value in (True, "drop")))
            side.set("hold", float(value == "hold"))
        elif key == "rate_mbit":
            side.set(key, FAST_MBIT_PER_S if value is None else _number(key, value, wrong))
        elif key == "burst":
            if value is not None and not (isinstance(value, dict) and {"loss", "len"} <= set(value)):
                raise wrong("a burst needs loss and len (mean packets); other models are not simulated")
            side.set("loss", 0.0 if value is None else _number("loss", value["loss"], wrong, most=1.0))
            side.set("burst", 1.0 if value is None else max(1.0, _number("len", value["len"], wrong)))
        elif key == "queue_ms":
            side.set(key, _number(key, value, wrong))
            side.set("queue_bytes", 0.0)
        elif key in ("delay_ms", "jitter_ms", "loss", "queue_bytes"):
            side.set(key, _number(key, value, wrong, most=1.0 if key == "loss" else LARGEST))
        elif key not in ("jitter_dist", "jitter_corr_ms"):
            raise wrong(f"a step sets `{key}`, which is not simulated")


def _direction(side: _Side, times_us: Sequence[int], period_us: int | None) -> Direction:
    columns = side.columns

    def steps(name: str, factor: float = 1.0) -> Steps:
        return Steps(times_us, [value * factor for value in columns[name]], period_us=period_us)

    rates = [
        0.0 if held else rate / 8 for rate, held in zip(columns["rate_mbit"], columns["hold"], strict=True)
    ]
    return Direction(
        capacity=Rates(times_us, rates, period_us=period_us),
        delay_us=steps("delay_ms", 1000),
        jitter_us=steps("jitter_ms", 1000),
        loss=steps("loss"),
        burst_packets=max(columns["burst"]),
        outage=steps("drop"),
        queue_us=steps("queue_ms", 1000),
        queue_bytes=steps("queue_bytes"),
    )
