"""Tells each connection what is committed and may be forgotten, in one message per commit.

Acks of live results follow their agent to its newest connection; those of a batch do not: its sender asks again.
"""

from collections.abc import Callable, Sequence

from cloud.agents.reception import Reception
from cloud.agents.session import WorkerSession
from cloud.simple_clients import SimpleCall
from cloud.store.writer import Entry, ranges
from cloud.telemetry.metrics import WorkerMetrics
from protos.wire.bulk import Ack


class Acknowledger:
    """Called by the record store's writer, after each commit."""

    def __init__(self, *, reception: Reception, metrics: WorkerMetrics, clock_us: Callable[[], int]) -> None:
        self._reception = reception
        self._metrics = metrics
        self._clock_us = clock_us

    def __call__(self, entries: Sequence[Entry]) -> None:
        """These are committed, or hold rows that never can be."""
        by_session: dict[WorkerSession, list[Entry]] = {}
        committed: dict[str, int] = {}
        for entry in entries:
            if entry.to is None:  # nobody's: it was to show whether the store writes
                continue
            if isinstance(entry.to, WorkerSession):
                by_session.setdefault(entry.to, []).append(entry)
            else:
                assert isinstance(entry.to, SimpleCall)  # noqa: S101 - this worker submitted it
                entry.to.send(Ack(records=ranges([record.id for record in entry.far])))
            source = "live" if entry.batch is None else "backfill"
            committed[source] = committed.get(source, 0) + len(entry.far) + len(entry.given)
        for source, rows in committed.items():
            self._metrics.records.labels(source).inc(rows)
        self._metrics.set_aside.inc(sum(entry.set_aside for entry in entries))
        for session, own in by_session.items():
            self._tell(session, own)

    def _tell(self, session: WorkerSession, entries: Sequence[Entry]) -> None:
        ids = [r.id for entry in entries for r in (*entry.far, *entry.given)]
        batches = tuple(entry.batch for entry in entries if entry.batch is not None)
        ack = Ack(records=ranges(ids), batches=batches)
        self._metrics.bulk.labels("committed").inc(len(batches))
        sent = session.send(ack)
        if not sent and not batches:
            other = self._reception.newest_live(session.agent, ids[0].run, besides=session)
            sent = other is not None and other.send(ack)
        if sent:
            self._metrics.acks.inc()
            self._metrics.acknowledged(min(entry.submitted_us for entry in entries), self._clock_us())
