"""Batches of the bulk lane on their way to the record store: opened on a thread of their own, refused or dropped in
words, so that an agent always knows what became of its batch."""

import threading
from collections.abc import Callable
from dataclasses import replace

from cloud.batches import batch_entry
from cloud.intake import BulkIntake
from cloud.limits import ServiceLimits
from cloud.metrics import WorkerMetrics
from cloud.session import WorkerSession
from cloud.store.writer import StoreWriter
from pipelines.errors import Rejected
from protos.wire.bulk import BulkBatch
from protos.wire.session import RejectReason


class Backfill:
    """`receive` from any thread; it never blocks."""

    def __init__(
        self,
        *,
        writer: StoreWriter,
        limits: ServiceLimits,
        metrics: WorkerMetrics,
        clock_us: Callable[[], int],
    ) -> None:
        self._writer = writer
        self._limits = limits
        self._metrics = metrics
        self._clock_us = clock_us
        self._intake = BulkIntake(self._open, failed=lambda: metrics.fault("bulk"))

    @property
    def thread(self) -> threading.Thread:
        return self._intake.thread

    def start(self) -> None:
        self._intake.start()

    def finish(self, timeout_s: float) -> None:
        """Open what waits and take nothing more."""
        self._intake.stop(timeout_s)

    def halt(self) -> None:
        self._intake.halt()

    def receive(self, session: WorkerSession, batch: BulkBatch) -> None:
        if not self._intake.offer(session, batch):
            self._drop(session, batch)

    def _open(self, session: WorkerSession, batch: BulkBatch) -> None:
        try:
            entry = batch_entry(session.agent, batch, self._limits)
        except Rejected as error:
            self._metrics.bulk.labels("refused").inc()
            session.error(RejectReason.BAD_PAYLOAD, f"batch {batch.batch}: {error}")
            return
        if not self._writer.submit(replace(entry, to=session, submitted_us=self._clock_us())):
            self._drop(session, batch)

    def _drop(self, session: WorkerSession, batch: BulkBatch) -> None:
        self._metrics.bulk.labels("dropped").inc()
        session.error(
            RejectReason.QUEUE_FULL, f"batch {batch.batch} dropped: too much waits; send it again later"
        )
