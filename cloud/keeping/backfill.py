"""The bulk lane on its way to record store and payload store: opened on a thread of its own, refused or dropped in
words, so that an agent always knows what became of its batch."""

import threading
from collections.abc import Callable
from dataclasses import replace

from cloud.agents.session import WorkerSession
from cloud.keeping.batches import batch_entry
from cloud.keeping.bulk_intake import BulkIntake
from cloud.keeping.uploads import Uploads, refuse_without_a_store
from cloud.limits import ServiceLimits
from cloud.store.writer import StoreWriter
from cloud.telemetry.metrics import WorkerMetrics
from pipelines.errors import Rejected, Retryable
from protos.wire.bulk import Ack, BulkBatch, Have
from protos.wire.session import RejectReason


class Backfill:
    """`receive` from any thread; it never blocks. `give_way` returns when live frames leave room for it. `uploads`
    None: no payloads are kept."""

    def __init__(
        self,
        *,
        writer: StoreWriter,
        limits: ServiceLimits,
        metrics: WorkerMetrics,
        clock_us: Callable[[], int],
        give_way: Callable[[], None],
        uploads: Uploads | None = None,
    ) -> None:
        self._uploads = uploads
        self._writer = writer
        self._limits = limits
        self._metrics = metrics
        self._clock_us = clock_us
        self._intake = BulkIntake(self._open, give_way=give_way, failed=lambda: metrics.fault("bulk"))

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

    def receive(self, session: WorkerSession, message: BulkBatch | Have) -> None:
        if not self._intake.offer(session, message):
            self._drop(session, message, "too much waits")

    def _open(self, session: WorkerSession, message: BulkBatch | Have) -> None:
        try:
            if isinstance(message, Have):
                self._offered(session, message)
            elif self._uploads is not None and message.chunks:
                self._pieces(session, message, self._uploads)
            else:
                self._rows(session, message)
        except Rejected as error:
            self._metrics.bulk.labels("refused").inc()
            _tell(session, message, RejectReason.BAD_PAYLOAD, f"{_name(message)}: {error}")
        except Retryable as error:
            self._drop(session, message, str(error))

    def _offered(self, session: WorkerSession, have: Have) -> None:
        if self._uploads is None:
            refuse_without_a_store(session)
        else:
            self._uploads.have(session, have)

    def _pieces(self, session: WorkerSession, batch: BulkBatch, uploads: Uploads) -> None:
        """Pieces are done with once they are written; rows beside them, once they are committed."""
        uploads.chunks(session, batch)
        if batch.records_zstd or batch.gaps:
            self._rows(session, replace(batch, chunks=()))
        else:
            self._metrics.bulk.labels("committed").inc()
            session.send(Ack(batches=(batch.batch,)))

    def _rows(self, session: WorkerSession, batch: BulkBatch) -> None:
        entry = batch_entry(session.agent, batch, self._limits)
        if self._writer.trouble:  # its agent keeps it better than our memory
            self._drop(session, batch, self._writer.trouble)
            return
        if not self._writer.submit(replace(entry, to=session, submitted_us=self._clock_us())):
            self._drop(session, batch, "too much waits")

    def _drop(self, session: WorkerSession, message: BulkBatch | Have, why: str) -> None:
        self._metrics.bulk.labels("dropped").inc()
        text = f"{_name(message)} dropped: {why}; send it again later"
        _tell(session, message, RejectReason.QUEUE_FULL, text)


def _tell(session: WorkerSession, message: BulkBatch | Have, reason: RejectReason, text: str) -> None:
    """An error that says which message it is about."""
    if isinstance(message, BulkBatch):
        session.error(reason, text, batch=message.batch)
    else:
        session.error(reason, text, have=message.have)


def _name(message: BulkBatch | Have) -> str:
    return f"batch {message.batch}" if isinstance(message, BulkBatch) else f"offer {message.have} of payloads"
