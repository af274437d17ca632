"""What a pipeline's file means to its scheduler: one mapping, for the agent and for whoever simulates it."""

from collections.abc import Sequence

from edge.config.pipeline import PipelineConfig
from edge.config.streams import SeenConfig
from edge.scheduling.priority_rule import PriorityRule
from edge.scheduling.rung import Rung
from edge.scheduling.settings import LinkSettings, SchedulerSettings, SmallNear, StreamSettings, Tracking
from pipelines.codecs.kinds import RungConfig
from pipelines.result import Priority
from protos.wire.session import StreamInfo

MOST_PIXELS = 640 * 640
"""Of a frame as it is sent, until the far input is known: only the first guess at a payload depends on it."""


def rung_of(step: RungConfig) -> Rung:
    return Rung(
        codec=step.codec,
        quality=step.wire_quality,
        scale=step.scale,
        accuracy=step.accuracy,
        payload_bytes=step.bytes,
    )


def link_settings(config: PipelineConfig, name: str) -> LinkSettings:
    """Of the link called `name`; one the file does not know costs nothing."""
    link = config.links.get(name)
    if link is None:
        return LinkSettings(name=name)
    budget = link.data_budget
    return LinkSettings(
        name=name,
        metered=link.metered,
        bytes_per_hour=None if budget is None else budget.per_hour,
        bytes_per_day=None if budget is None else budget.per_day,
    )


def scheduler_settings(
    config: PipelineConfig,
    *,
    links: Sequence[str],
    near_prior_us: int | None,
    small_prior_us: int | None = None,
) -> SchedulerSettings:
    """`links` names the far ways; `near_prior_us`: how long near takes to begin with, None = there is no near;
    `small_prior_us`: the same of its smaller input."""
    step = config.scheduler
    weights = {priority: float(getattr(step.weights, priority.value)) for priority in Priority}
    near = config.near if near_prior_us is not None else None
    return SchedulerSettings(
        deadline_us=config.deadline,
        margin_us=step.hedge.margin,
        policy=step.policy,
        hedge=step.hedge.start,
        min_p=step.min_p,
        byte_price=step.byte_price,
        ladder=tuple(rung_of(rung) for rung in step.ladder),
        links=tuple(link_settings(config, name) for name in links),
        duplicate=frozenset() if step.duplicate is None else frozenset(step.duplicate.priorities),
        duplicate_share=0.0 if step.duplicate is None else step.duplicate.share,
        near_accuracy=None if near is None else near.accuracy,
        near_prior_us=near_prior_us or 0,
        fall_back_above_us=config.rtt_budget.fall_back_above,
        return_below_us=config.rtt_budget.return_below,
        load_price=step.load_price,
        unsure_below=step.unsure_below,
        weights=weights,
        small_near=None
        if near is None or near.smaller is None or small_prior_us is None
        else SmallNear(accuracy=near.smaller.accuracy, prior_us=small_prior_us),
        tracking=None
        if config.tracker is None
        else Tracking(accuracy=config.tracker.accuracy, max_age=config.tracker.max_age),
    )


def seen_rule(when: SeenConfig, priority: Priority = Priority.NORMAL) -> PriorityRule:
    return PriorityRule(
        priority=priority,
        label=when.label,
        score_above=when.score_above,
        score_below=when.score_below,
        count=when.count_at_least,
        region=when.region,
    )


def stream_settings(config: PipelineConfig, infos: Sequence[StreamInfo]) -> dict[str, StreamSettings]:
    """By name; a camera that has not given a picture yet has no size."""
    return {
        info.name: StreamSettings(
            pixels=min(info.width_px * info.height_px or MOST_PIXELS, MOST_PIXELS),
            size_px=(info.width_px, info.height_px),
            priority=config.streams[info.name].priority,
            rules=tuple(seen_rule(rule.when, rule.priority) for rule in config.streams[info.name].rules),
        )
        for info in infos
    }
