"""What a run amounts to: the laws as numbers that add up, and the state of link, outbox and sinks."""

from collections.abc import Sequence
from dataclasses import asdict

from edge.dispatcher import Dispatcher
from edge.links.base import Link
from edge.outbox.stats import OutboxStats
from edge.run_dir import RunDir
from edge.sinks.base import SinkThread


def summary_of(
    dispatcher: Dispatcher,
    *,
    in_slots: int,
    outbox: OutboxStats,
    sinks: Sequence[SinkThread],
    link: Link | None,
    run_dir: RunDir | None,
    now_us: int,
) -> dict[str, object]:
    """Plain values for JSON; `in_slots` frames still lie in slots. Units are in the names."""
    scheduler = dispatcher.scheduler
    far = dispatcher.far
    way = next(iter(scheduler.ways.values()))
    breaker, estimate = way.breaker, way.link
    return {
        **dispatcher.counters.summary(pending=dispatcher.pending_frames + in_slots),
        "outbox": {**asdict(outbox), "adds_up": outbox.balance == 0},
        "sinks": {
            sink.name: {"written": sink.written, "dropped": sink.dropped, "failed": sink.failed}
            for sink in sinks
        },
        "link": None
        if link is None or far is None
        else {
            "name": link.name,
            "in_budget": breaker.in_budget,
            "reason": far.degraded or breaker.reason,
            "connections": far.connections,
            "bytes_up": link.bytes_sent(),
            "rtt_min_ms": round(estimate.rtt_min_us(now_us) / 1000, 2),
            "bandwidth_mbit": round(estimate.bytes_per_us(now_us) * 8, 2),
        },
        "near_guard_ms": round(scheduler.near.estimate.guard_us / 1000, 2),
        "margin_ms": round(scheduler.wake_up.margin_us / 1000, 2),
        "run_dir": None
        if run_dir is None
        else {"lines": run_dir.lines, "lost": run_dir.lost, "late_unmarked": run_dir.late_unmarked},
    }
