"""The cameras: each is opened, one frame is taken from it, and it is let go."""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from edge.blocks import StreamConfig
from edge.capture.base import Source
from edge.capture.kinds import SOURCES
from nearfar.bounded import within
from nearfar.doctor.finding import Finding, fail, ok, skipped, words_of
from nearfar.doctor.limits import Limit, as_asked
from pipelines.frame import Picture

WITHIN_S = 5.0
_HELD = {
    "usb": "the agent that runs holds this camera; stop it to try the camera alone",
    "camera": "the agent that runs reads this camera, and some cameras take one reader only; "
    "the agent's log says how it fares, or stop it to try the camera alone",
}
"""Why a source of this kind is not opened beside an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A stream's first picture; `fps` 0 = it does not say."""

    name: str
    picture: Picture
    fps: float

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
    try:
        seen = within(limit_s, lambda: _first(name, config), what=f"the {config.source.kind} source")
    except Exception as error:  # noqa: BLE001 - whatever a decoder throws is what is to be told
        advice = f"mend streams.{name}.source if it is wrong; the agent keeps trying a camera that is away"
        return fail(layer, words=words_of(error), advice=advice), None
    if seen is None:
        words = "it ended before its first picture"
        return fail(layer, words=words, advice=f"mend streams.{name}.source"), None
    took_ms = (time.monotonic() - begun_s) * 1000
    width, height = seen.size_px
    rate = f"{seen.fps:g} frames/s" if seen.fps else "frames per second not said"
    words = f"{config.source.kind} {width}x{height}, {rate}, first picture after {took_ms:.0f} ms"
    return ok(layer, words=words), seen


def _first(name: str, config: StreamConfig) -> Seen | None:
    source: Source = SOURCES.build(config.source)
    try:
        shape = source.open()
        picture = source.read()
    finally:
        source.close()
    return None if picture is None else Seen(name=name, picture=picture, fps=shape.fps)
