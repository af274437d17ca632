"""What goes up, as people write it: `uplink`, and what the outbox keeps around an event."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from edge.config.streams import SeenConfig
from pipelines.blocks import Block, MisfitError, Steps
from pipelines.codecs.kinds import CodecConfig
from pipelines.labels import or_nearest
from pipelines.result import Priority
from pipelines.units import Duration, duration

MAX_RULES = 32
ARCHIVE_QUALITY = 90
_LONGEST_AROUND_US = duration("30s")


class ArchiveConfig(CodecConfig):
    """How pictures that go up later are compressed, at their full size."""

    codec: Literal["jpeg", "png", "zstd"] = Field("jpeg", description="png and zstd are lossless")
    quality: int | None = Field(
        default_factory=lambda data: ARCHIVE_QUALITY if data.get("codec") == "jpeg" else None,
        ge=1,
        le=100,
        description="JPEG quality; jpeg only",
        json_schema_extra={"default": ARCHIVE_QUALITY},
    )


class UplinkSeenConfig(SeenConfig):
    """An answer that showed such boxes, or that such a one gave; all that is said here holds."""

    answered_by: (
        Annotated[tuple[Literal["near", "tracked", "missed"], ...], Field(strict=False, min_length=1)] | None
    ) = Field(
        None,
        description="whose answers; left out: anybody's but far's, whose pictures a worker keeps by its own rule",
    )

    @property
    def asks_for_boxes(self) -> bool:
        return bool(self.model_fields_set - {"answered_by"})

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("asks for nothing: leave `when` out, or say what an answer must have shown")
        if self.answered_by == ("missed",) and self.asks_for_boxes:
            raise ValueError("a missed frame has no boxes: ask for answered_by alone")
        return self


class UplinkRuleConfig(Block):
    """What goes up of the frames that match."""

    when: UplinkSeenConfig | None = Field(None, description="left out: every frame")
    every: int = Field(1, ge=1, le=1_000_000, description="the first of every so many that match, by stream")
    send: Annotated[tuple[Literal["result", "payload"], ...], Field(strict=False, min_length=1)] = Field(
        ("result",), description="[result], or [result, payload] for the picture too"
    )
    priority: Priority | None = Field(
        None, strict=False, description="in the outbox and in backfill; left out: the frame's own"
    )

    @field_validator("send")
    @classmethod
    def _has_the_result(cls, send: tuple[str, ...]) -> tuple[str, ...]:
        if "result" not in send:
            raise ValueError("the result always goes up: write [result, payload]")
        return send

    @property
    def payload(self) -> bool:
        return "payload" in self.send

    @property
    def matches_everything(self) -> bool:
        return self.when is None and self.every == 1


class UplinkConfig(Block):
    """What goes up for frames that were not answered far; the first rule that matches counts."""

    archive: ArchiveConfig = ArchiveConfig()
    rules: Annotated[
        tuple[UplinkRuleConfig, ...], Field(strict=False, min_length=1, max_length=MAX_RULES)
    ] = (UplinkRuleConfig(),)

    @model_validator(mode="after")
    def _every_rule_can_be_reached(self) -> Self:
        for number, rule in enumerate(self.rules[:-1]):
            if rule.matches_everything:
                words = f"is never reached: rule {number + 1} before it matches every frame"
                raise MisfitError((("rules", number + 1), words))
        return self

    @property
    def sends_payloads(self) -> bool:
        return any(rule.payload for rule in self.rules)

    @property
    def has_events(self) -> bool:
        """Whether a rule sends the picture of what was seen, or of who answered."""
        return any(rule.payload and rule.when is not None for rule in self.rules)


class AroundConfig(Block):
    """Pictures of the frames around one whose picture a rule sends by its `when`."""

    before: Duration = Field(duration("2s"), description="of capture, up to 30s")
    after: Duration = Field(duration("2s"), description="of capture, up to 30s")

    @field_validator("before", "after")
    @classmethod
    def _is_a_moment(cls, span_us: int) -> int:
        if span_us > _LONGEST_AROUND_US:
            raise ValueError("must be at most 30s: the pictures wait in memory")
        return span_us


def uplink_faults(
    uplink: UplinkConfig, keep: AroundConfig | None, labels: Sequence[str] | None
) -> Iterator[tuple[Steps, str]]:
    """What does not fit the rest of a pipeline."""
    if keep is not None and not uplink.has_events:
        yield (
            ("outbox", "keep"),
            "keeps pictures around frames that a rule of uplink.rules sends by its `when`: there is no such rule",
        )
    for number, rule in enumerate(uplink.rules):
        label = None if rule.when is None else rule.when.label
        if labels is not None and label is not None and label not in labels:
            at = ("uplink", "rules", number, "when", "label")
            yield at, f"{label} is none of `labels`: no answer shows it{or_nearest(label, labels)}"


def uplink_warnings(uplink: UplinkConfig, *, has_link: bool) -> Iterator[str]:
    if uplink.sends_payloads and not has_link:
        yield "uplink.rules send pictures and there is no link: they fill the outbox up to its bounds"
    if not uplink.sends_payloads and "archive" in uplink.model_fields_set:
        yield "uplink.archive says how pictures are compressed, and no rule of uplink.rules sends one"
