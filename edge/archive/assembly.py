"""Makes the archivist of an agent from its configuration; none when no rule sends a picture."""

from collections.abc import Callable

from edge.archive.archivist import RING_BYTES, Archivist
from edge.archive.ring import AroundRing
from edge.archive.rules import UplinkRule, UplinkRules
from edge.config.scheduler_settings import seen_rule
from edge.config.uplink import AroundConfig, UplinkConfig, UplinkRuleConfig
from edge.outbox.payload import PayloadEntry
from pipelines.codecs.kinds import CODECS
from pipelines.result import AnsweredBy


def build_archivist(
    uplink: UplinkConfig,
    around: AroundConfig | None,
    *,
    keep: Callable[[PayloadEntry], None],
    clock_us: Callable[[], int],
) -> Archivist | None:
    """`keep` gets what goes to the outbox. Rules that only give another priority need an archivist too."""
    rules = UplinkRules([rule_of(rule) for rule in uplink.rules])
    if not rules.change_anything:
        return None
    archive = uplink.archive
    ring = (
        None
        if around is None
        else AroundRing[PayloadEntry](before_us=around.before, after_us=around.after, max_bytes=RING_BYTES)
    )
    return Archivist(
        rules=rules,
        codec=CODECS[archive.codec].resolve().from_config(archive),
        quality=archive.wire_quality,
        ring=ring,
        keep=keep,
        clock_us=clock_us,
    )


def rule_of(rule: UplinkRuleConfig) -> UplinkRule:
    when = rule.when
    return UplinkRule(
        seen=seen_rule(when) if when is not None and when.asks_for_boxes else None,
        answered_by=None
        if when is None or when.answered_by is None
        else frozenset(map(AnsweredBy, when.answered_by)),
        every=rule.every,
        payload=rule.payload,
        priority=rule.priority,
    )
