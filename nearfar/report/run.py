"""A run directory, read: frames, link, summary, and what a demo adds. Whatever is missing is empty, not an error."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.report.axis import Axis
from nearfar.report.frames import Frames, OnTime, read_frames
from nearfar.report.links import LinkHistory, read_links
from nearfar.report.numbers import unix_ms
from pipelines.errors import ConfigError

_TELLING: tuple[tuple[tuple[str, ...], type], ...] = (
    (("frames", "captured"), int),
    (("frames", "adds_up"), bool),
    (("outbox", "committed"), int),
    (("outbox", "evicted"), dict),
    (("outbox", "set_aside"), int),
    (("outbox", "adds_up"), bool),
    (("run_dir", "lost"), int),
)
"""Without one of these nobody knows whether an answer was lost or a frame not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What was done to the link meanwhile, in unix ms."""

    name: str
    good: bool
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One promise of a demo: what was wanted, what was seen, and whether it held."""

    promise: str
    want: str
    got: str
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """`summary` is None when the agent did not end by itself, or when it is `summary_damaged`; `checks` are a demo's
    promises, one by one."""

    path: Path
    frames: Frames
    links: tuple[LinkHistory, ...]
    links_damaged: int
    summary: dict[str, Any] | None
    summary_damaged: bool
    phases: tuple[Phase, ...]
    checks: tuple[Check, ...]

    @property
    def deadline_ms(self) -> float | None:
        """From the summary, or from a frame; None when neither says it."""
        if self.summary is not None and isinstance(self.summary.get("deadline_ms"), int | float):
            return float(self.summary["deadline_ms"])
        said = self.frames.deadline_ms[~np.isnan(self.frames.deadline_ms)]
        return float(said[0]) if len(said) else None

    @property
    def start_ms(self) -> float:
        return min((float(times[0]) for times in self._times), default=0.0)

    @property
    def end_ms(self) -> float:
        return max((float(times[-1]) for times in self._times), default=0.0)

    @property
    def _times(self) -> list[NDArray[np.float64]]:
        columns = [self.frames.unix_ms, *(link.unix_ms for link in self.links)]
        return [times for times in columns if len(times)]

    @property
    def axis(self) -> Axis:
        return Axis.over(start_ms=self.start_ms, end_ms=self.end_ms)

    @property
    def on_time(self) -> OnTime:
        """From the summary's own counters, or from the lines where there is none."""
        frames, of = self.said("on_time", "frames"), self.said("on_time", "of")
        if isinstance(frames, int) and isinstance(of, int):
            return OnTime(frames=frames, of=of)
        return self.frames.timely()

    def said(self, *path: str) -> Any:
        """What the summary has at `path`, None where it has nothing."""
        block: Any = self.summary
        for name in path:
            block = block.get(name) if isinstance(block, dict) else None
        return block

    @property
    def untold(self) -> tuple[str, ...]:
        """What the summary should say about losses and does not; empty when all of it can be read."""
        return tuple(".".join(path) for path, kind in _TELLING if type(self.said(*path)) is not kind)

    def section(self, *path: str) -> dict[str, Any]:
        """A block of the summary, empty where there is none."""
        block = self.said(*path)
        return block if isinstance(block, dict) else {}

    def count(self, *path: str) -> int:
        """A counter of the summary, 0 where there is none."""
        value = self.said(*path)
        return value if isinstance(value, int) else 0

    def total(self, *path: str) -> int:
        """The sum of a block of counters, such as those by reason."""
        return sum(value for value in self.section(*path).values() if isinstance(value, int))


def read_run(path: Path) -> Run:
    """The run in directory `path`. Raises ConfigError when it is no run directory or cannot be read."""
    if not path.is_dir():
        raise ConfigError(f"{path} is no directory; give the one that `nearfar edge --run-dir` wrote")
    if not any((path / name).exists() for name in ("frames.jsonl", "summary.json")):
        raise ConfigError(
            f"{path} holds neither frames.jsonl nor summary.json; give the directory that "
            "`nearfar edge --run-dir` or `nearfar demo --out` wrote"
        )
    try:
        summary, summary_damaged = _summary(path / "summary.json")
        links, links_damaged = read_links(path / "link.jsonl")
        return Run(
            path=path,
            frames=read_frames(path / "frames.jsonl"),
            links=links,
            links_damaged=links_damaged,
            summary=summary,
            summary_damaged=summary_damaged,
            phases=tuple(_phases(path / "phases.json")),
            checks=tuple(_checks(path / "verdict.json")),
        )
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error}; run the report as the user who may read it"
        ) from error


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None


def _summary(path: Path) -> tuple[dict[str, Any] | None, bool]:
    """The summary, and whether there is a file that is none."""
    found = _json(path)
    if isinstance(found, dict):
        return found, False
    return None, path.exists()


def _list(path: Path) -> list[Any]:
    found = _json(path)
    return found if isinstance(found, list) else []


def _phases(path: Path) -> list[Phase]:
    phases = []
    for row in _list(path):
        try:
            phases.append(
                Phase(
                    name=str(row["name"]),
                    good=bool(row["good"]),
                    start_ms=unix_ms(row["start_unix_ms"]),
                    end_ms=unix_ms(row["end_unix_ms"]),
                )
            )
        except (KeyError, TypeError, ValueError):
            continue
    return phases


def _checks(path: Path) -> list[Check]:
    checks = []
    for row in _list(path):
        try:
            checks.append(
                Check(
                    promise=str(row["promise"]),
                    want=str(row["want"]),
                    got=str(row["got"]),
                    held=bool(row["held"]),
                )
            )
        except (KeyError, TypeError):
            continue
    return checks
