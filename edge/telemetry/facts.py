"""What a run was: the settings a reader of its figures needs, and the machine it ran on.

Nothing secret: of a source only its kind is said, for a camera's address may hold a password.
"""

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from edge.config.pipeline import PipelineConfig
from protos.wire.session import ModelInfo, StreamInfo

_PACKAGES = ("nearfar", "onnxruntime", "opencv-python-headless", "pyzmq", "grpcio", "numpy")


class ModelFacts(TypedDict):
    name: str
    sha256: str


class Facts(TypedDict):
    policy: str
    hedge: str
    fall_back_above_ms: float
    return_below_ms: float
    streams: dict[str, dict[str, object]]
    near: ModelFacts | None
    near_smaller: str | None
    tracker: str | None
    far: ModelFacts | None
    ladder: list[dict[str, object]]
    links: dict[str, str]
    started_unix_ms: float
    machine: dict[str, object]


def facts_of(
    config: PipelineConfig,
    *,
    streams: Sequence[StreamInfo],
    near: tuple[str, str] | None,
    near_smaller: str = "",
    far: ModelInfo | None,
    started_unix_us: int,
) -> Facts:
    """`near` is name and SHA-256, `near_smaller` the name of its smaller input, empty without one. `streams` as announced
    to the worker (0 x 0 = not known yet); `far` None = no worker was there."""
    return {
        "policy": config.scheduler.policy,
        "hedge": config.scheduler.hedge.start,
        "fall_back_above_ms": config.rtt_budget.fall_back_above / 1000,
        "return_below_ms": config.rtt_budget.return_below / 1000,
        "streams": {
            info.name: {
                "source": config.streams[info.name].source.kind,
                "width": info.width_px,
                "height": info.height_px,
            }
            for info in streams
        },
        "near": None if near is None else {"name": near[0], "sha256": near[1]},
        "near_smaller": near_smaller or None,
        "tracker": None if config.tracker is None else config.tracker.kind,
        "far": None if far is None else {"name": far.name, "sha256": far.sha256},
        "ladder": [
            {"codec": rung.codec, "quality": rung.quality, "level": rung.level, "scale": rung.scale}
            for rung in config.scheduler.ladder
        ],
        "links": {name: _without_user(link.url) for name, link in config.links.items()},
        "started_unix_ms": started_unix_us / 1000,
        "machine": machine(),
    }


def machine() -> dict[str, object]:
    """The host as a person would name it, without asking the network."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "packages": packages,
    }


def _without_user(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor in its maker's words, on ARM the board's; empty when the kernel says neither."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    said = {
        key.strip().lower(): value.strip() for key, _, value in (x.partition(":") for x in text.splitlines())
    }
    # On x86 `model` is a bare number; on ARM it is the board, and there is no `model name`.
    names = (said.get(key, "") for key in ("model name", "model", "hardware"))
    return next((name for name in names if name and not name.isdigit()), "")
