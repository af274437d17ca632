"""An agent at one moment, read from outside while it works: plain values, and nothing it owns is touched.

Counts only rise. They are read one by one beside the threads that write them, so a sum may be off by the frames of
that moment; what stays off is a fault.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge.capture.state import StreamStatus
from edge.far.sight import LinkSight
from edge.flow.dispatcher import Dispatcher
from edge.flow.track_runner import TrackCounts
from edge.outbox.stats import OutboxStats
from edge.sinks.base import SinkThread
from edge.sinks.delivery.queue import QueueSight
from edge.telemetry.counters import Counters
from edge.telemetry.latency import Histogram, LatencyTally
from edge.telemetry.readiness import without_far
from pipelines.result import AnsweredBy, ShedReason
from protos.wire.session import RejectReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkVitals:
    name: str
    written: int
    dropped: int
    failed: int
    queue: QueueSight | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """`pending` is counted from slots and table, not from the other counts. `links` are at most 250 ms old.
    `outbox_age_us` is None when unknown; `lag_us`: how far the answers of a stream are behind its newest frame."""

    captured: int
    answered: Mapping[AnsweredBy, int]
    gated: int
    shed: Mapping[ShedReason, int]
    pending: int
    on_time: int
    unpaced: int
    late_far: int
    uncommitted: int
    failed: int
    offloaded: int
    rejected: Mapping[RejectReason, int]
    payload_bytes: int
    near_runs: int
    near_cancelled: int
    near_guard_us: int
    margin_us: int
    turned_us: int
    latency: Mapping[AnsweredBy, Histogram]
    streams: Mapping[str, StreamStatus]
    stream_answers: Mapping[tuple[str, AnsweredBy], int]
    stream_on_time: Mapping[str, int]
    lag_us: Mapping[str, int]
    links: Sequence[LinkSight]
    outbox: OutboxStats
    outbox_age_us: int | None
    sinks: Sequence[SinkVitals]
    near_smaller_runs: int = 0
    policy: str = "deadline"
    tracker: TrackCounts | None = None

    @property
    def degraded(self) -> bool:
        """Whether there are links and no frame may go over any of them."""
        return bool(without_far(self.links, policy=self.policy))

    @property
    def unaccounted(self) -> int:
        """0 when the law of the frames holds."""
        gone = sum(self.answered.values()) + self.gated + sum(self.shed.values())
        return self.captured - gone - self.pending


def vitals_of(
    dispatcher: Dispatcher,
    *,
    in_slots: int,
    streams: Mapping[str, StreamStatus],
    latency: LatencyTally,
    outbox: OutboxStats,
    outbox_age_us: int | None,
    sinks: Sequence[SinkThread],
) -> Vitals:
    """Everything there is to see; `in_slots` frames lie in slots."""
    counters: Counters = dispatcher.counters
    scheduler = dispatcher.scheduler
    return Vitals(
        captured=counters.captured,
        # By known reasons: iterating over a dictionary that another thread adds to would fail.
        answered={by: counters.answered[by] for by in AnsweredBy},
        gated=counters.gated,
        shed={reason: counters.shed[reason] for reason in ShedReason},
        pending=dispatcher.pending_frames + in_slots,
        on_time=counters.on_time,
        unpaced=counters.unpaced,
        late_far=counters.late_far,
        uncommitted=counters.uncommitted,
        failed=counters.failed,
        offloaded=counters.offloaded,
        rejected={reason: counters.rejected[reason.value] for reason in RejectReason},
        payload_bytes=counters.payload_bytes,
        near_runs=counters.near_runs,
        near_cancelled=counters.cancelled_near,
        near_guard_us=scheduler.near.estimate.guard_us,
        near_smaller_runs=counters.near_smaller_runs,
        tracker=None if dispatcher.tracking is None else dispatcher.tracking.runner.counts,
        margin_us=scheduler.wake_up.margin_us,
        turned_us=dispatcher.turned_us,
        latency=latency.histograms,
        streams=streams,
        stream_answers=latency.answers,
        stream_on_time=latency.on_time,
        lag_us=scheduler.lag_us(),
        links=dispatcher.sights,
        policy=dispatcher.scheduler.settings.policy,
        outbox=outbox,
        outbox_age_us=outbox_age_us,
        sinks=[
            SinkVitals(name=s.name, written=s.written, dropped=s.dropped, failed=s.failed, queue=s.queue())
            for s in sinks
        ],
    )
