"""What an agent shows Prometheus: its vitals, read at each scrape, as families whose names say their units.

Needs prometheus_client (the extra `metrics`); an agent without an `http` block never imports this module.
Labels are bounded by the configuration and by closed lists of words: no identity of a frame or a run's detail ever
becomes a label. docs/metrics.md explains each name; a test keeps the two together.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Info, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from edge.capture.state import StreamState
from edge.far.metrics import families
from edge.outbox.stats import OutboxStats
from edge.sinks.gauges import queue_metrics
from edge.telemetry.latency import BOUNDS_US
from edge.telemetry.vitals import Vitals

PREFIX = "nearfar_agent"
Labelled = Mapping[str, float] | Mapping[tuple[str, ...], float] | Mapping[tuple[str, str], float]


def _counter(name: str, words: str, value: float) -> Metric:
    return CounterMetricFamily(f"{PREFIX}_{name}", words, value=value)


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_{name}", words, value=value)


def _counters(name: str, words: str, labels: tuple[str, ...], values: Labelled) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}_{name}", words, labels=labels)
    for label, value in values.items():
        family.add_metric((label,) if isinstance(label, str) else label, value)
    return family


class _VitalsCollector(Collector):
    def __init__(self, read: Callable[[], Vitals], *, deadline_us: int, outbox_max_bytes: int) -> None:
        self._read = read
        self._deadline_us = deadline_us
        self._outbox_max_bytes = outbox_max_bytes
        self._highest: dict[tuple[str, ...], float] = {}

    def describe(self) -> Iterable[Metric]:
        return []  # nothing is read before the first scrape

    def collect(self) -> Iterator[Metric]:
        vitals = self._read()
        yield from self._frames(vitals)
        yield from _streams(vitals)
        yield from _far(vitals)
        if vitals.links:
            yield from families(PREFIX, vitals.links)
            yield _gauge(
                "degraded", "1 while no link is in budget: far answers little or nothing.", vitals.degraded
            )
        yield from _near(vitals)
        yield from self._outbox(vitals)
        yield self._sinks(vitals)
        yield from queue_metrics(vitals.sinks)

    def _frames(self, v: Vitals) -> Iterator[Metric]:
        shed = {reason.value: n for reason, n in v.shed.items()}
        ends = {
            **{by.value: n for by, n in v.answered.items()},
            "gated": v.gated,
            "shed": sum(shed.values()),
        }
        yield _counter("frames_captured", "Frames that got a sequence number.", v.captured)
        yield _counters("frames", "Frames by how they ended.", ("outcome",), ends)
        yield _counters("frames_shed", "Frames nobody was asked about, by reason.", ("reason",), shed)
        yield _gauge("frames_pending", "Frames captured and not yet answered, gated or shed.", v.pending)
        yield _gauge(
            "frames_unaccounted",
            "Captured less ended less pending: 0, or off for a moment; what stays off is a fault.",
            v.unaccounted,
        )
        yield _counter(
            "frames_on_time", "Near or far answers with status ok, out by the deadline.", v.on_time
        )
        yield _counter(
            "frames_unpaced", "Frames read as fast as they are taken: outside on-time figures.", v.unpaced
        )
        yield _counter("answers_failed", "Answers whose status is failed.", v.failed)
        yield _counter("answers_uncommitted", "Answers released before the outbox had them.", v.uncommitted)
        yield _gauge("deadline_seconds", "Frame available to answer out.", self._deadline_us / 1e6)
        latency = HistogramMetricFamily(
            f"{PREFIX}_answer_latency_seconds",
            "Capture to release of paced frames, by who answered.",
            labels=("answered_by",),
        )
        for by, histogram in v.latency.items():
            total, buckets = 0, []
            for bound_us, count in zip((*BOUNDS_US, None), histogram.counts, strict=True):
                total += count
                buckets.append(("+Inf" if bound_us is None else str(bound_us / 1e6), total))
            latency.add_metric((by.value,), buckets, sum_value=histogram.sum_us / 1e6)
        yield latency

    def _payloads(self, box: OutboxStats) -> Iterator[Metric]:
        yield _gauge(
            "outbox_payloads", "Pictures on disk that the cloud does not have.", box.payloads_pending
        )
        yield _gauge("outbox_payload_bytes", "What they take of the bytes of the outbox.", box.payload_bytes)
        yield _counter("outbox_payloads_committed", "Pictures committed.", box.payloads_committed)
        yield _counter("outbox_payloads_acked", "Pictures the cloud keeps, or had.", box.payloads_acked)
        yield _counters(
            "outbox_payloads_evicted",
            "Pictures given up, by the bound they met.",
            ("reason",),
            box.payloads_evicted,
        )
        yield _counter("outbox_payloads_refused", "Pictures the cloud never takes.", box.payloads_refused)
        yield _counter(
            "outbox_payloads_set_aside", "Pictures damaged, or in a damaged file.", box.payloads_set_aside
        )
        yield _counter("outbox_payloads_lost", "Pictures that nothing could take.", box.payloads_lost)

    def _outbox(self, v: Vitals) -> Iterator[Metric]:
        box = v.outbox
        yield _gauge("outbox_rows", "Records on disk that the cloud has not acknowledged.", box.pending)
        yield _gauge("outbox_bytes", "What they take.", box.bytes)
        yield _gauge("outbox_max_bytes", "Above it the least important are evicted.", self._outbox_max_bytes)
        if v.outbox_age_us is not None:
            yield _gauge(
                "outbox_oldest_age_seconds",
                "Accumulated uptime since the oldest of them was captured; 0 when there is none.",
                v.outbox_age_us / 1e6,
            )
        yield _gauge(
            "outbox_gaps", "Ranges of frames without a record that the cloud must learn.", box.gaps_pending
        )
        yield _gauge(
            "outbox_memory_rows",
            "Answers in memory only: far ones the cloud has not acknowledged, and what the disk refuses.",
            box.far_pending + box.outcomes_pending + box.uncommitted,
        )
        yield _counter("outbox_committed", "Records committed to the outbox.", box.committed)
        yield _counter("outbox_acked", "Records the cloud acknowledged.", box.acked)
        yield _counters(
            "outbox_evicted", "Records given up, by the bound they met.", ("reason",), box.evicted
        )
        yield _counter("outbox_set_aside", "Records damaged, or that a worker cannot read.", box.set_aside)
        yield _gauge("outbox_refused_rows", "Of these: kept, since a worker cannot read them.", box.refused)
        yield _counter("outbox_batches_unread", "Batches a worker could not read.", box.batches_unread)
        yield _counter("outbox_lost", "Answers that neither disk nor memory could take.", box.lost)
        yield _counter("outbox_sent_bytes", "Bytes of backfill handed to the link.", box.bytes_sent)
        yield _counter(
            "outbox_batches_refused", "Backfill the worker had no room for, sent again.", box.batches_refused
        )
        yield _counter(
            "outbox_flash_bytes", "Bytes written to the disk by the outbox.", box.flash_bytes_written
        )
        yield _gauge(
            "outbox_flash_bytes_per_day",
            "The same in 24 h of uptime, over its life.",
            box.flash_gb_per_day * 1e9,
        )
        yield _gauge(
            "outbox_commit_p99_seconds", "Answer to commit, of the last 500 commits.", box.commit_p99_us / 1e6
        )
        yield from self._payloads(box)
        yield _gauge("outbox_failing", "1 while the disk refuses to take records.", bool(box.last_error))

    def _sinks(self, v: Vitals) -> Metric:
        values: dict[tuple[str, ...], float] = {}
        for position, sink in enumerate(v.sinks):
            for outcome in ("written", "dropped", "failed"):
                key = (sink.name, str(position), outcome)
                # A failed flush takes back what was thought written; a counter must not fall.
                self._highest[key] = values[key] = max(getattr(sink, outcome), self._highest.get(key, 0))
        return _counters(
            "sink_answers",
            "Answers by what became of them at a sink; position counts the sinks of the file from 0.",
            ("sink", "position", "outcome"),
            values,
        )


def _streams(v: Vitals) -> Iterator[Metric]:
    yield _counters(
        "stream_answers",
        "Answers by stream and who gave them.",
        ("stream", "answered_by"),
        {(stream, by.value): n for (stream, by), n in v.stream_answers.items()},
    )
    yield _counters(
        "stream_frames",
        "Frames captured, by stream.",
        ("stream",),
        {name: status.frames for name, status in v.streams.items()},
    )
    yield _counters(
        "stream_stale_frames",
        "Of them, those shed because the camera gave them too late.",
        ("stream",),
        {name: status.stale for name, status in v.streams.items()},
    )
    yield _counters(
        "stream_reconnects",
        "Connections to a camera after its first.",
        ("stream",),
        {name: status.reconnects for name, status in v.streams.items()},
    )
    hanging = GaugeMetricFamily(
        f"{PREFIX}_stream_hanging_connections",
        "Earlier connections to a camera that have not come back from the decoder.",
        labels=("stream",),
    )
    for name, status in v.streams.items():
        hanging.add_metric((name,), status.hanging)
    yield hanging
    states = GaugeMetricFamily(
        f"{PREFIX}_stream_state",
        "1 for the state a stream is in, 0 for the others.",
        labels=("stream", "state"),
    )
    for name, status in v.streams.items():
        for state in StreamState:
            states.add_metric((name, state.value), status.state is state)
    yield states
    yield _counters("stream_on_time", "Answers out in time, by stream.", ("stream",), v.stream_on_time)
    lag = GaugeMetricFamily(
        f"{PREFIX}_lag_seconds",
        "For how long frames have come without an answer catching up with the newest.",
        labels=("stream",),
    )
    for name, lag_us in v.lag_us.items():
        lag.add_metric((name,), lag_us / 1e6)
    yield lag


def _far(v: Vitals) -> Iterator[Metric]:
    yield _counter("offloaded_frames", "Frames handed to the link.", v.offloaded)
    yield _counter("payload_bytes", "Bytes of encoded pictures handed to the link.", v.payload_bytes)
    yield _counters(
        "rejects",
        "Frames a worker refused, by reason.",
        ("reason",),
        {reason.value: n for reason, n in v.rejected.items()},
    )
    yield _counter("late_far", "Far results that came after another answer was given.", v.late_far)


def _near(v: Vitals) -> Iterator[Metric]:
    yield _counter("near_runs", "Runs of the local detector.", v.near_runs)
    yield _counter("near_smaller_runs", "Of them, those at its smaller input.", v.near_smaller_runs)
    yield _counter("near_cancelled", "Runs of it that a far answer made needless.", v.near_cancelled)
    yield _gauge("near_guard_seconds", "Time kept free for a near run.", v.near_guard_us / 1e6)
    if v.tracker is not None:
        yield _counter("tracker_runs", "Answers the tracker was asked to carry forward.", v.tracker.runs)
        yield _counter("tracker_lost", "Of them, those of which nothing was left in sight.", v.tracker.lost)
        yield _counter("tracker_skipped", "Pictures it did not look at for want of time.", v.tracker.skipped)
    yield _gauge("margin_seconds", "How long before its deadline an answer must be out.", v.margin_us / 1e6)


class AgentMetrics:
    """One registry of its own, no globals. `text` may be asked from any thread."""

    def __init__(
        self,
        read: Callable[[], Vitals],
        *,
        agent: str,
        run: str,
        policy: str,
        version: str,
        deadline_us: int,
        outbox_max_bytes: int,
    ) -> None:
        self.registry = CollectorRegistry()
        Info(PREFIX, "Which agent this is.", registry=self.registry).info(
            {"agent": agent, "run": run, "policy": policy, "version": version}
        )
        self.registry.register(
            _VitalsCollector(read, deadline_us=deadline_us, outbox_max_bytes=outbox_max_bytes)
        )
        ProcessCollector(registry=self.registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)
