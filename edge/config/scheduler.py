"""`scheduler` of a pipeline, as people write it, and the policies there are."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from pipelines.blocks import Block, MisfitError
from pipelines.codecs.kinds import RungConfig
from pipelines.registry import Family, Kind
from pipelines.result import Priority
from pipelines.units import Duration, Fraction, duration

MIN_MARGIN_US = 3_000
MAX_RUNGS = 16


class HedgeConfig(Block):
    """The near run that stands behind every offloaded frame."""

    start: Literal["late", "immediate", "never"] = Field(
        "late",
        description="late: early enough for its slowest runs, sooner where far is doubtful; "
        "immediate: with the offload; never: no hedge",
    )
    margin: Duration = Field(
        duration("4ms"), description="how long before the deadline an answer must be out"
    )

    @field_validator("margin")
    @classmethod
    def _covers_the_wake_up(cls, margin_us: int) -> int:
        if margin_us < MIN_MARGIN_US:
            raise ValueError("must be at least 3ms: a dispatcher wakes up that late")
        return margin_us


class DuplicateConfig(Block):
    """Frames that go over two links at once; the first answer counts."""

    priorities: Annotated[
        tuple[Annotated[Priority, Field(strict=False)], ...], Field(strict=False, min_length=1)
    ] = Field((Priority.HIGH,), description="of the streams whose frames are sent twice")
    share: Fraction = Field(0.1, gt=0, description="at most so much of the bytes of pictures is sent twice")


class WeightsConfig(Block):
    """How near's time and a link's bytes are shared when they are short: by what each priority's streams had before,
    per weight. A stream that got nothing for a second comes first whatever its weight."""

    high: float = Field(4.0, gt=0, le=1000)
    normal: float = Field(2.0, gt=0, le=1000)
    low: float = Field(1.0, gt=0, le=1000)

    @model_validator(mode="after")
    def _rise(self) -> Self:
        if not self.low <= self.normal <= self.high:
            raise MisfitError((("high",), "high must not weigh less than normal, nor normal less than low"))
        return self


class SchedulerConfig(Block):
    """Who answers which frame."""

    policy: Literal["deadline", "confidence", "threshold", "near_only", "far_only"] = Field(
        "deadline",
        description="deadline: by value per frame; confidence: what near was unsure of; threshold: by round trip alone",
    )
    ladder: Annotated[tuple[RungConfig, ...], Field(strict=False)] = (RungConfig(),)
    hedge: HedgeConfig = HedgeConfig()
    min_p: Fraction = Field(0.1, description="least probability of being on time that is worth sending")
    byte_price: float = Field(0.001, ge=0, description="accuracy per kB")
    duplicate: DuplicateConfig | None = Field(
        None, description="send frames that matter over two links; left out: each frame goes over one"
    )
    load_price: float = Field(
        0.005, ge=0, description="accuracy per service time that waits at the worker already"
    )
    unsure_below: Fraction = Field(
        0.6, description="policy confidence: far is asked when near's least sure box scores below this"
    )
    weights: WeightsConfig = WeightsConfig()
    real_time: bool = Field(
        True,
        description="where the system permits it, threads that pass answers on run before all other programs",
    )

    @field_validator("ladder")
    @classmethod
    def _has_rungs(cls, ladder: tuple[RungConfig, ...]) -> tuple[RungConfig, ...]:
        if not 1 <= len(ladder) <= MAX_RUNGS:
            raise ValueError(f"needs 1 to {MAX_RUNGS} rungs")
        return ladder


NEEDS_NEAR = frozenset({"near_only", "confidence"})
"""Policies that are nothing without a near detector."""

POLICIES = Family(
    "policy",
    *(
        Kind(name=name, config=SchedulerConfig, target=f"edge.scheduling.policies:{name}", words=words)
        for name, words in {
            "deadline": "far when its value beats near by the deadline, near behind every offloaded frame",
            "confidence": "near looks first; far when near is unsure and far's value beats it by the deadline",
            "threshold": "far while the round trip is inside the budget, near otherwise; no hedge",
            "near_only": "the gateway's detector answers every frame",
            "far_only": "the cloud answers every frame; what it cannot answer in time is missed",
        }.items()
    ),
)
