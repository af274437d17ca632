"""What an engine process is told at its start: which detectors to hold, and how to make each. It is JSON, so that
nothing but words crosses from one interpreter to the other."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, cast

from cloud.engine.messages import MalformedMessageError, read_json
from pipelines.detectors.base import Detector
from pipelines.detectors.kinds import DETECTORS, DetectorConfig, with_threads

_OF_A_KIND = "cloud.engine.recipe:of_a_kind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One model. `maker`: `module:function`, which is called with `settings` in the engine and returns a detector;
    `instances`: how many each engine holds; `warm_up`: whether it runs once before it is ready."""

    model: str
    maker: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    instances: int = 1
    warm_up: bool = True

    @classmethod
    def of(
        cls, model: str, config: DetectorConfig, *, instances: int, threads: int, warm_up: bool
    ) -> "Recipe":
        """Of a detector of a configuration, with `threads` in one of its runs."""
        return cls(
            model=model,
            maker=_OF_A_KIND,
            settings=with_threads(config, threads).model_dump(mode="json"),
            instances=instances,
            warm_up=warm_up,
        )

    def make(self) -> Detector:
        """The detector. Raises what making it raises."""
        module, _, name = self.maker.partition(":")
        return cast("Detector", getattr(import_module(module), name)(dict(self.settings)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStart:
    """One detector of one engine: its recipe, and the descriptors of its channel and of its `memory_bytes`."""

    recipe: Recipe
    channel: int
    memory: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStart:
    """`engine` counts from 0; `threads` is what OpenCV may use; `parent` is the process it must not outlive."""

    engine: int
    parent: int
    threads: int
    log_level: int
    slots: tuple[SlotStart, ...]


def pack_start(start: EngineStart) -> bytes:
    slots = [
        {
            "model": slot.recipe.model,
            "maker": slot.recipe.maker,
            "settings": dict(slot.recipe.settings),
            "warm_up": slot.recipe.warm_up,
            "channel": slot.channel,
            "memory": slot.memory,
            "memory_bytes": slot.memory_bytes,
        }
        for slot in start.slots
    ]
    return json.dumps(
        {
            "engine": start.engine,
            "parent": start.parent,
            "threads": start.threads,
            "log_level": start.log_level,
            "slots": slots,
        }
    ).encode()


def read_start(body: bytes) -> EngineStart:
    """Raises MalformedMessageError."""
    value = read_json(body)
    try:
        slots = tuple(
            SlotStart(
                recipe=Recipe(
                    model=slot["model"],
                    maker=slot["maker"],
                    settings=slot["settings"],
                    warm_up=slot["warm_up"],
                ),
                channel=slot["channel"],
                memory=slot["memory"],
                memory_bytes=slot["memory_bytes"],
            )
            for slot in value["slots"]
        )
        return EngineStart(
            engine=value["engine"],
            parent=value["parent"],
            threads=value["threads"],
            log_level=value["log_level"],
            slots=slots,
        )
    except (KeyError, TypeError) as error:
        raise MalformedMessageError(f"no start of an engine: {body[:200]!r}") from error


def of_a_kind(settings: dict[str, Any]) -> Detector:
    """The maker of every detector a configuration can name."""
    block = DETECTORS[str(settings["kind"])].config
    detector: Detector = DETECTORS.build(block.model_validate(settings))
    return detector
