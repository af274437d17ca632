"""What becomes of a frame that is over: its reply, its record, its picture.

Replies go back on the connection a frame came from or, if that is gone, on the newest live one of the same run. Whatever
else is to be done about a frame is done behind its reply.
"""

from collections.abc import Callable
from dataclasses import replace

from cloud.agents.reception import Reception
from cloud.agents.session import WorkerSession
from cloud.backlog.front import Backlog
from cloud.backlog.jobs import Detected, Job, Outcome
from cloud.keeping.live_payloads import LivePayloads
from cloud.replying.replies import FarRecord, reject_of, result_of
from cloud.store.writer import Entry, StoreWriter
from cloud.telemetry.metrics import WorkerMetrics
from pipelines.result import Load
from protos.wire.live import Reject, Result
from protos.wire.session import RejectReason


class Outcomes:
    """Called by every thread that ends a frame."""

    def __init__(
        self,
        *,
        backlog: Backlog,
        reception: Reception,
        writer: StoreWriter,
        live_payloads: LivePayloads | None,
        metrics: WorkerMetrics,
        clock_us: Callable[[], int],
    ) -> None:
        self._backlog = backlog
        self._reception = reception
        self._writer = writer
        self._live_payloads = live_payloads
        self._metrics = metrics
        self._clock_us = clock_us

    def ended(self, job: Job, outcome: Outcome) -> None:
        """A job of the backlog is over: say so, and keep what the model said."""
        job.origin.forget(job, body_may_come=True)
        now_us = self._clock_us()
        load = self._load(job, now_us)
        if not isinstance(outcome, Detected):
            self.count_reject(outcome.reason)
            self._reply(job, reject_of(job, outcome.reason, outcome.text, load))
            return
        result = result_of(job, outcome, now_us=now_us, load=load)
        self._reply(job, result)
        self._metrics.answered(job, now_us, detect_us=outcome.detect_us)
        if not job.to_store:
            return
        record = FarRecord(job, result)
        self._writer.submit(Entry(far=record, to=job.origin, awaited=job.awaits_commit, submitted_us=now_us))
        if self._live_payloads is not None:
            self._live_payloads.offer(job, result.detections, now_us=now_us)

    def count_reject(self, reason: RejectReason) -> None:
        self._metrics.frames.labels("rejected").inc()
        self._metrics.rejects.labels(reason.value).inc()

    def _load(self, job: Job, now_us: int) -> Load:
        return self._backlog.load(job.model, now_us, told=job.id.agent)

    def _reply(self, job: Job, message: Result | Reject) -> None:
        if job.origin.send(message):
            return
        other = self._reception.newest_live(job.id.agent, job.id.run, besides=job.origin)
        if other is None or not _send_renumbered(other, job.id.stream, message):
            self._metrics.undelivered.inc()


def _send_renumbered(session: WorkerSession, stream: str, message: Result | Reject) -> bool:
    """Send on another connection, whose Hello may number the streams differently."""
    names = [s.name for s in session.hello.streams] if session.hello else []
    return stream in names and session.send(replace(message, stream=names.index(stream)))
