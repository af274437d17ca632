"""What a run amounts to: the laws as numbers that add up, and the state of link, outbox and sinks."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from edge.capture.state import StreamStatus
from edge.flow.dispatcher import Dispatcher
from edge.outbox.stats import OutboxStats
from edge.sinks.base import SinkThread
from edge.telemetry.run_dir import RunDir


def summary_of(
    dispatcher: Dispatcher,
    *,
    in_slots: int,
    outbox: OutboxStats,
    sinks: Sequence[SinkThread],
    run_dir: RunDir | None,
) -> dict[str, object]:
    """Plain values for JSON; `in_slots` frames still lie in slots. Units are in the names. Links are as the dispatcher
    saw them last, which is when it ended."""
    scheduler = dispatcher.scheduler
    return {
        **dispatcher.counters.summary(pending=dispatcher.pending_frames + in_slots),
        "outbox": {**asdict(outbox), "adds_up": outbox.balance == outbox.payload_balance == 0},
        "sinks": {sink.name: sink.summary() for sink in sinks},
        "links": {sight.link: sight.as_summary() for sight in dispatcher.sights},
        "tracker": None if dispatcher.tracking is None else dispatcher.tracking.runner.counts._asdict(),
        "near_guard_ms": round(scheduler.near.estimate.guard_us / 1000, 2),
        "near_smaller_guard_ms": None
        if scheduler.near.small_estimate is None
        else round(scheduler.near.small_estimate.guard_us / 1000, 2),
        "margin_ms": round(scheduler.wake_up.margin_us / 1000, 2),
        "run_dir": None
        if run_dir is None
        else {
            "lines": run_dir.lines,
            "lost": run_dir.lost,
            "late_unmarked": run_dir.late_unmarked,
            "link_lost": run_dir.link_lost,
            "pictures_missed": run_dir.pictures_missed,
        },
    }


def streams_summary(states: Mapping[str, StreamStatus], *, now_us: int) -> dict[str, object]:
    """How each stream is doing, plain values for JSON; `for_s` = in this state for so long."""
    return {
        name: {
            "state": status.state.value,
            "reason": status.reason,
            "for_s": round((now_us - status.since_us) / 1e6, 1),
            "size": f"{status.width_px}x{status.height_px}",
            "captured": status.frames,
            "stale": status.stale,
            "reconnects": status.reconnects,
            "hanging": status.hanging,
        }
        for name, status in states.items()
    }
