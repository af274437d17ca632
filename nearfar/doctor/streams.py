"""The cameras: each is opened, one frame is taken from it, and it is let go.

From a camera that does not say how many frames it gives, and for which the file does not say it either, frames are
taken for a second more and counted.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from edge.capture.base import Source
from edge.capture.kinds import SOURCES
from edge.config.streams import StreamConfig
from nearfar.bounded import LateError, within
from nearfar.doctor.finding import Finding, fail, ok, skipped, words_of
from nearfar.doctor.limits import Limit, as_asked
from pipelines.errors import NearfarError
from pipelines.frame import Picture

WITHIN_S = 5.0
_SETTLE_S = 0.3
_COUNT_S = 1.0
_HELD = {
    "usb": "the agent that runs holds this camera; stop it to try the camera alone",
    "camera": "the agent that runs reads this camera, and some cameras take one reader only; "
    "the agent's log says how it fares, or stop it to try the camera alone",
}
"""Why a source of this kind is not opened beside an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A stream's first picture; `fps` 0 = not known, `counted` = nobody said it and it was counted."""

    name: str
    picture: Picture
    fps: float
    counted: bool = False

    @property
    def size_px(self) -> tuple[int, int]:
        """(width, height)."""
        height, width = self.picture.shape[:2]
        return int(width), int(height)


def look_at(
    streams: Mapping[str, StreamConfig], *, agent_runs: bool, limit: Limit = as_asked
) -> Iterable[tuple[Finding, Seen | None]]:
    """One finding a stream, in order; they are opened side by side, so the slowest one bounds them all."""
    limit_s = limit(WITHIN_S)
    with ThreadPoolExecutor(len(streams), thread_name_prefix="look") as pool:
        return list(
            pool.map(lambda item: _look(*item, agent_runs=agent_runs, limit_s=limit_s), streams.items())
        )


def _look(
    name: str, config: StreamConfig, *, agent_runs: bool, limit_s: float
) -> tuple[Finding, Seen | None]:
    layer = f"stream {name}"
    if agent_runs and config.source.kind in _HELD:
        return skipped(layer, why=_HELD[config.source.kind]), None
    begun_s = time.monotonic()
    until_s = begun_s + limit_s
    first: list[tuple[Seen, float]] = []
    try:
        what = f"the {config.source.kind} source"
        seen = within(limit_s, lambda: _first(name, config, until_s=until_s, first=first), what=what)
    except LateError as error:
        if not first:
            return fail(layer, words=words_of(error), advice=_advice(name)), None
        seen = first[0][0]  # the picture came; it hung while the frames behind it were counted
    except Exception as error:  # noqa: BLE001 - whatever a decoder throws is what is to be told
        return fail(layer, words=words_of(error), advice=_advice(name)), None
    if seen is None:
        words = "it ended before its first picture"
        return fail(layer, words=words, advice=f"mend streams.{name}.source"), None
    took_ms = (first[0][1] - begun_s) * 1000
    width, height = seen.size_px
    if not seen.fps:
        rate = f"frames per second neither said nor seen: write streams.{name}.source.fps"
    else:
        rate = f"{seen.fps:g} frames/s" + (" (counted)" if seen.counted else "")
    words = f"{config.source.kind} {width}x{height}, {rate}, first picture after {took_ms:.0f} ms"
    return ok(layer, words=words), seen


def _advice(name: str) -> str:
    return f"mend streams.{name}.source if it is wrong; the agent keeps trying a camera that is away"


def _first(
    name: str, config: StreamConfig, *, until_s: float, first: list[tuple[Seen, float]]
) -> Seen | None:
    """The first picture, put into `first` with its moment as soon as it is there, with the frames per second."""
    source: Source = SOURCES.build(config.source)
    try:
        shape = source.open()
        picture = source.read()
        if picture is None:
            return None
        seen = Seen(name=name, picture=picture, fps=shape.fps or getattr(config.source, "fps", None) or 0.0)
        first.append((seen, time.monotonic()))
        if seen.fps or config.source.kind not in _HELD:
            return seen
        fps = round(count(source.read, until_s=until_s), 1)
    finally:
        source.close()
    return replace(seen, fps=fps, counted=fps > 0)


def count(
    read: Callable[[], Picture | None], *, until_s: float, clock_s: Callable[[], float] = time.monotonic
) -> float:
    """Frames per second of a live source, 0 when too few come: those a camera had kept for a new reader come all at
    once and are left out."""
    settled_s = clock_s() + _SETTLE_S
    stop_s = min(settled_s + _COUNT_S, until_s)
    at_s: list[float] = []
    while (now_s := clock_s()) < stop_s:
        try:
            picture = read()
        except NearfarError:
            break
        if picture is None:
            break
        if now_s >= settled_s:
            at_s.append(clock_s())
    return (len(at_s) - 1) / (at_s[-1] - at_s[0]) if len(at_s) > 1 and at_s[-1] > at_s[0] else 0.0
