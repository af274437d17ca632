"""What a gate is: it looks at every frame before the slot and says whether it is worth an answer."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, Self

from pipelines.frame import Picture


class Why(StrEnum):
    """Why a frame passed a gate, or did not."""

    FIRST = "first"  # of the stream, of a new picture size, or after a long pause
    MOTION = "motion"
    SCENE = "scene"  # nearly everything changed at once: light, camera moved, another scene
    KEYFRAME = "keyframe"  # nothing moved, and the last frame that passed is `at_least_every` old
    STILL = "still"
    RATE = "rate"  # sooner after the last one than `at_most_every`


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    passes: bool
    why: Why


class Gate(Protocol):
    """Of one stream, used by one thread. Frames come in order; a gate never blocks and keeps no frame."""

    @classmethod
    def from_config(cls, config: Any) -> Self: ...

    def judge(self, picture: Picture, now_us: int) -> Verdict:
        """`now_us` is when the picture became available; it never runs backwards."""
        ...
