"""What the queues of an agent's sinks show Prometheus; docs/metrics.md explains each name."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from edge.sinks.delivery.queue import QueueSight

PREFIX = "nearfar_agent_sink"
_LABELS = ("sink", "position")


class Queueing(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def queue(self) -> QueueSight | None: ...


def queue_metrics(sinks: Sequence[Queueing]) -> Iterator[Metric]:
    """Of sinks without a queue nothing; `position` counts the sinks of the file from 0."""
    queues = [
        ((sink.name, str(position)), sink.queue)
        for position, sink in enumerate(sinks)
        if sink.queue is not None
    ]

    def gauge(name: str, words: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"{PREFIX}_{name}", words, labels=_LABELS)

    def counter(name: str, words: str, *labels: str) -> CounterMetricFamily:
        return CounterMetricFamily(f"{PREFIX}_{name}", words, labels=(*_LABELS, *labels))

    rows = gauge("queue_rows", "Answers that wait for the receiver.")
    size = gauge("queue_bytes", "What they take.")
    oldest = gauge("queue_oldest_age_seconds", "For how long the first of them waits; 0 when none does.")
    failing = gauge("failing", "1 while the receiver takes nothing.")
    disk = gauge("queue_disk_failing", "1 while the disk of a durable queue takes nothing.")
    delivered = counter("delivered", "Answers the receiver acknowledged.")
    given_up = counter("given_up", "Answers it will not get from here, by what became of them.", "reason")
    retries = counter("retries", "Deliveries that failed, and were or will be tried again.")
    flash = counter("flash_bytes", "Bytes a durable queue wrote to the disk.")
    for key, queue in queues:
        spool = queue.spool
        rows.add_metric(key, spool.waiting)
        size.add_metric(key, spool.bytes)
        oldest.add_metric(key, spool.oldest_us / 1e6)
        failing.add_metric(key, bool(queue.post.failing))
        disk.add_metric(key, bool(spool.disk_error))
        delivered.add_metric(key, spool.delivered)
        retries.add_metric(key, queue.post.retries)
        flash.add_metric(key, spool.flash_bytes)
        ends = {
            **spool.refused,
            **spool.evicted,
            "set_aside": spool.set_aside,
            "abandoned": spool.abandoned,
        }
        for reason, count in ends.items():
            given_up.add_metric((*key, reason), count)
    yield from (rows, size, oldest, failing, disk, delivered, given_up, retries, flash)
