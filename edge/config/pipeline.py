"""The pipeline an agent runs, as people write it: `PIPELINE.yaml` to `PipelineConfig`.

Attribute names are the YAML keys; durations are int µs, sizes int bytes, extents (width_px, height_px).
Streams are in `edge.config.streams`, the scheduler is in `edge.config.scheduler`; sources, links and sinks in the `kinds` of their packages.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from edge.config.scheduler import NEEDS_NEAR, SchedulerConfig
from edge.config.streams import StreamConfig
from edge.config.uplink import AroundConfig, UplinkConfig, uplink_faults
from edge.links.kinds import LinkConfig
from edge.sinks.blocks import name_faults
from edge.sinks.kinds import SinkConfig, path_faults
from pipelines.blocks import (
    Block,
    FilePath,
    MisfitError,
    Name,
    Sha256,
    Words,
)
from pipelines.detectors.kinds import DetectorConfig, at_input
from pipelines.document import Document
from pipelines.labels import or_nearest
from pipelines.listen import HttpConfig
from pipelines.trackers.kinds import TrackerConfig
from pipelines.units import Duration, Extent, Fraction, Microseconds, Size, duration, size
from protos.wire.session import Hello

MAX_STREAMS = 16
MAX_LINKS = 4


class RttBudget(Block):
    """The band of the round trip: above the first a link is over budget, below the second it is in budget again. Over
    budget only frames that look worth it go; with the policy threshold, or once nothing comes back, none."""

    # The default needs the pipeline's deadline, so the pipeline fills it in; nobody has to write it.
    model_config = ConfigDict(json_schema_extra=lambda schema: schema.pop("required", None))

    fall_back_above: Duration = Field(description="default: the deadline")
    return_below: Duration = Field(
        default_factory=lambda data: Microseconds(data["fall_back_above"] // 2),
        description="default: half of fall_back_above",
    )

    @model_validator(mode="after")
    def _is_a_band(self) -> Self:
        if not self.return_below < self.fall_back_above:
            raise MisfitError((("return_below",), "must be below fall_back_above, or the link would flap"))
        return self


class SmallerConfig(Block):
    """The same detector at a smaller input: it answers frames the full one can no longer make in time."""

    input: Extent = Field(description="what it runs at then; fewer pixels than the detector's own")
    accuracy: Fraction = Field(0.4, description="of such an answer, relative to the best far one")


class NearConfig(Block):
    """The gateway's own detector."""

    detector: DetectorConfig
    accuracy: Fraction = Field(0.5, description="of a near answer, relative to the best far one")
    threads: int = Field(
        default_factory=lambda data: getattr(data["detector"], "threads", 1),
        ge=1,
        le=64,
        description="threads of one near run; default: the detector's",
    )
    smaller: SmallerConfig | None = Field(
        None, description="what answers when the full input would be late; left out: nothing does"
    )

    @model_validator(mode="after")
    def _threads_reach_the_detector(self) -> Self:
        if getattr(self.detector, "threads", self.threads) != self.threads:
            if "threads" in self.detector.model_fields_set:
                raise MisfitError((("threads",), "differs from detector.threads; say it once"))
            # The block is still being made: this is where the one number reaches its second reader.
            object.__setattr__(self, "detector", self.detector.model_copy(update={"threads": self.threads}))
        return self

    @model_validator(mode="after")
    def _smaller_is_smaller(self) -> Self:
        if self.smaller is not None:
            (width_px, height_px), full_px = self.smaller.input, self.detector.input
            if width_px * height_px >= full_px[0] * full_px[1]:
                words = f"{width_px}x{height_px} is not smaller than the detector's {full_px[0]}x{full_px[1]}"
                raise MisfitError((("smaller", "input"), words))
            try:
                at_input(self.detector, self.smaller.input)
            except ValidationError as error:
                words = "; ".join(fault["msg"].removeprefix("Value error, ") for fault in error.errors())
                raise MisfitError((("smaller", "input"), words)) from error
        return self


class FarConfig(Block):
    """What is asked of the cloud."""

    model: Annotated[str, Field(max_length=64)] = Field(
        "", description="checked at Hello; empty: the worker's default"
    )
    sha256: Sha256 | None = Field(
        None, description="of the worker's model file: one with another file is refused; left out: any"
    )
    input: Extent | None = Field(
        None, description="of the worker's model: one that runs at another is refused; left out: any"
    )

    def asked_in(self, hello: Hello) -> Hello:
        """`hello` with what is asked of the worker's model."""
        width_px, height_px = self.input or (0, 0)
        return replace(
            hello,
            model=self.model,
            model_sha256=self.sha256 or "",
            input_width_px=width_px,
            input_height_px=height_px,
        )


class OutboxConfig(Block):
    """What is kept until the cloud has it."""

    max_bytes: Size = Field(size("1GiB"), description="on disk; beyond it the least important goes first")
    max_age: Duration = Field(duration("72h"), description="accumulated uptime, not wall time")
    durability: Literal["process", "power"] = Field(
        "process", description="process: survives kill -9; power: survives a power cut (fsync)"
    )
    on_full: Literal["coarsen", "evict"] = Field(
        "coarsen",
        description="lowest priority first, oldest first, counted; coarsen: all pictures before any result",
    )
    keep: AroundConfig | None = Field(
        None, description="pictures around an event too; left out: only those the rules of uplink send"
    )


class PipelineConfig(Block):
    """An agent: streams in, answers out, each by its deadline."""

    version: Literal[1]
    agent: Name | None = Field(None, description="left out: made once, kept in state_dir")
    state_dir: FilePath = Field(Path(".nearfar/agent"), description="outbox and identity of the agent")
    deadline: Duration = Field(duration("100ms"), description="frame available to answer out")
    rtt_budget: RttBudget = Field(
        default_factory=lambda data: RttBudget(fall_back_above=Microseconds(data["deadline"])),
        description="round trips at which a link is in budget",
    )
    labels: Annotated[Words, Field(min_length=1)] | None = Field(
        None, description="the recipe's own label space; left out: each detector's own"
    )
    label_map: dict[Annotated[str, Field(min_length=1)], str] = Field(
        default_factory=dict, description="a model's label to the one of `labels` that means the same"
    )
    streams: Annotated[dict[Name, StreamConfig], Field(min_length=1, max_length=MAX_STREAMS)]
    near: NearConfig | None = Field(None, description="left out: nothing is answered near")
    tracker: TrackerConfig | None = Field(
        None,
        description="carries the last answer forward to frames nobody answers in time; left out: they are missed",
    )
    far: FarConfig = FarConfig()
    links: Annotated[dict[Name, LinkConfig], Field(max_length=MAX_LINKS)] = Field(
        default_factory=dict,
        description="ways to workers that share one record store; each frame goes the best way at its time",
    )
    scheduler: SchedulerConfig = SchedulerConfig()
    outbox: OutboxConfig = OutboxConfig()
    uplink: UplinkConfig = UplinkConfig()
    sinks: Annotated[tuple[SinkConfig, ...], Field(strict=False)] = ()
    http: HttpConfig | None = Field(None, description="/healthz, /readyz and /metrics; left out: no HTTP")
    drain: Duration = Field(
        duration("10s"), description="how long a finished clip waits for the cloud and for sinks that queue"
    )

    @field_validator("deadline")
    @classmethod
    def _leaves_time(cls, deadline_us: int) -> int:
        if deadline_us < 10_000:
            raise ValueError("must be at least 10ms: below it no answer can be out in time")
        return deadline_us

    @field_validator("rtt_budget", mode="before")
    @classmethod
    def _budget_follows_the_deadline(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, dict) and "fall_back_above" not in value and "deadline" in info.data:
            return {**value, "fall_back_above": Microseconds(info.data["deadline"])}
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        faults: list[tuple[tuple[str | int, ...], str]] = []
        policy = self.scheduler.policy
        if policy in NEEDS_NEAR and self.near is None:
            faults.append((("scheduler", "policy"), f"{policy} needs a `near` detector"))
        if policy == "far_only" and not self.links:
            faults.append((("scheduler", "policy"), "far_only needs a link"))
        if policy in ("deadline", "threshold") and self.near is None and not self.links:
            faults.append((("scheduler", "policy"), f"{policy} needs a `near` detector, a link, or both"))
        if self.labels is not None and len(set(self.labels)) != len(self.labels):
            faults.append((("labels",), "a label is given twice"))
        faults += self._label_map_faults()
        faults += self._rule_faults()
        faults += uplink_faults(self.uplink, self.outbox.keep, self.labels)
        faults += name_faults([(sink.kind, sink) for sink in self.sinks])
        faults += path_faults(self.sinks)
        if self.scheduler.duplicate is not None and len(self.links) < 2:
            faults.append((("scheduler", "duplicate"), "needs a second link to send a frame over"))
        if self.scheduler.hedge.margin * 2 > self.deadline:
            faults.append((("scheduler", "hedge", "margin"), "takes more than half of the deadline"))
        if faults:
            raise MisfitError(*faults)
        return self

    def _label_map_faults(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        if self.label_map and self.labels is None:
            yield ("label_map",), "leads into `labels`, which is left out: say which labels the recipe has"
            return
        names = self.labels or ()
        for label, means in self.label_map.items():
            if means not in names:
                yield ("label_map", label), f"{means} is none of `labels`{or_nearest(means, names)}"
            if label in names:
                yield ("label_map", label), f"{label} is itself one of `labels`: take it out of either"

    def _rule_faults(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        if self.labels is None:
            return
        for name, stream in self.streams.items():
            for number, rule in enumerate(stream.rules):
                label = rule.when.label
                if label is not None and label not in self.labels:
                    yield (
                        ("streams", name, "rules", number, "when", "label"),
                        f"{label} is none of `labels`: no answer shows it{or_nearest(label, self.labels)}",
                    )


def load_pipeline(path: Path | str, overrides: Sequence[str] = ()) -> PipelineConfig:
    """The pipeline in a YAML file, after `path=value` overrides.

    Raises ConfigError with every problem; files it reads that are not there are looked for last.
    """
    document = Document.read(path)
    document.override(overrides, PipelineConfig)
    config = document.validate(PipelineConfig)
    document.check_files(config)
    return config
