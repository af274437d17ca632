"""The worker without a transport: listeners open sessions on it and move bytes, it does the rest.

    head ─→ admit ─→ body ─→ EDF queue ─→ decode ─→ detect ─→ reply, then record store ─→ ack after commit
    batch ─→ unpack (own thread) ─────────────────────────────────────→ record store ─→ ack after commit

Every admitted head ends as exactly one of: result, reject, cancelled, lost with its connection. Replies go
back on the connection a frame came from or, if that is gone, on the newest live one of the same run.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cloud import gauges
from cloud.backlog import Backlog
from cloud.batches import batch_entry
from cloud.decoding import DecodePool
from cloud.intake import BulkIntake
from cloud.jobs import EXPIRED, STOPPED, Detected, Job, Outcome
from cloud.ledger import Ledger
from cloud.limits import ServiceLimits
from cloud.metrics import WorkerMetrics
from cloud.models import ModelHost, ModelSpec
from cloud.reception import Reception
from cloud.replies import far_record, reject_of, result_of
from cloud.scheduling.admission import PayloadLimits
from cloud.scheduling.credits import Credits
from cloud.session import WorkerSession
from cloud.store.writer import Entry, Store, StoreWriter, ranges
from pipelines.codecs.base import Codec, PictureLimits
from pipelines.errors import Rejected
from pipelines.result import Load
from protos.endpoint import Peer
from protos.wire.bulk import Ack, BulkBatch
from protos.wire.live import Reject, Result
from protos.wire.session import Credit, Hello, Ping, Pong, RejectReason

log = logging.getLogger(__name__)

_TICK_S = 0.05


class Service:
    """Implements `protos.endpoint.Endpoint`. `start` before `open`; `drain`, then `stop`."""

    def __init__(
        self,
        *,
        models: Sequence[ModelSpec],
        default_model: str,
        codecs: Mapping[str, Codec],
        store: Store,
        store_id: str,
        clock_us: Callable[[], int],
        unix_us: Callable[[], int],
        limits: ServiceLimits | None = None,
        decode_threads: int = 1,
        commit_every_us: int = 20_000,
        metrics: WorkerMetrics | None = None,
    ) -> None:
        self.limits = limits = limits or ServiceLimits()
        self.metrics = metrics or WorkerMetrics()
        self.codecs = codecs
        self._clock_us = clock_us
        self._credit = Credit(frames=limits.frames_in_flight, bytes=limits.bytes_in_flight)
        self.backlog = Backlog(
            {spec.name: spec.instances for spec in models},
            ledger=Ledger(
                limits=PayloadLimits(
                    message_bytes=limits.message_bytes,
                    pixels=limits.pixels,
                    decompressed_bytes=limits.decompressed_bytes,
                ),
                credit=Credits(frames=limits.frames_in_flight, size_bytes=limits.bytes_in_flight),
                max_frames=limits.queue_frames,
                max_bytes=limits.queue_bytes,
            ),
            clock_us=clock_us,
            ended=self.ended,
        )
        self._decoding = DecodePool(
            threads=decode_threads,
            codecs=codecs,
            limits=PictureLimits(pixels=limits.pixels, decoded_bytes=limits.decompressed_bytes),
            backlog=self.backlog,
            clock_us=clock_us,
        )
        self._hosts = {
            spec.name: ModelHost(
                spec,
                backlog=self.backlog,
                decode=self._decoding.decode,
                metrics=self.metrics,
                max_detections=limits.detections,
                clock_us=clock_us,
            )
            for spec in models
        }
        self._reception = Reception(
            backlog=self.backlog,
            models=lambda: {name: host.info for name, host in self._hosts.items()},
            default_model=default_model,
            store_id=store_id,
            credit=self._credit,
            limits=limits,
        )
        self.writer = StoreWriter(
            self.metrics.timed(store, clock_us),
            commit_every_us=commit_every_us,
            acknowledge=self._acknowledge,
            clock_us=clock_us,
            unix_us=unix_us,
        )
        self._intake = BulkIntake(self._open_batch)
        self._stopping = threading.Event()
        self._timer = threading.Thread(target=self._tick, name="nearfar-timer", daemon=True)
        gauges.show(
            self.metrics,
            backlog=self.backlog,
            reception=self._reception,
            writer=self.writer,
            clock_us=clock_us,
        )

    @property
    def sessions(self) -> int:
        return self._reception.connections()

    def start(self, *, timer: bool = True) -> None:
        """Load and warm up the models, start every thread. `timer` False: the caller calls `tick`."""
        try:
            for host in self._hosts.values():
                host.start()
                self.metrics.model(host.info)
        except BaseException:
            self.stop()
            raise
        self._decoding.start()
        self.writer.start()
        self._intake.start()
        if timer:
            self._timer.start()

    def open(self, peer: Peer) -> WorkerSession:
        return WorkerSession(self, peer)

    def not_ready(self) -> list[str]:
        """Why this worker should get no new work, in words; empty when it is ready."""
        out = [f"model {name} is not loaded" for name in self.backlog.models_not_ready()]
        if self.writer.trouble:
            out.append(self.writer.trouble)
        if self.backlog.draining:
            out.append("draining")
        return out

    def drain(self, timeout_us: int) -> bool:
        """Admit nothing more, finish what was admitted, commit and acknowledge it; False if time ran out."""
        until_us = self._clock_us() + timeout_us
        finished = self.backlog.drain(timeout_us)
        self._intake.stop(max(0, until_us - self._clock_us()) / 1e6)
        return self.writer.flush(max(0, until_us - self._clock_us())) and finished

    def stop(self) -> None:
        """End every thread; what never ran is rejected as draining."""
        self._stopping.set()
        for job in self.backlog.stop():
            self.ended(job, STOPPED)
        self._decoding.stop(2.0)
        for host in self._hosts.values():
            host.stop(2.0)
        self._intake.stop(2.0)
        self.writer.stop(0)
        if self._timer.is_alive():
            self._timer.join(2.0)

    def tick(self, now_us: int) -> None:
        """What happens because time passed: expired frames, newcomers whose rival stayed silent."""
        for job in self.backlog.sweep(now_us):
            self.ended(job, EXPIRED)
        self._reception.tick(now_us)

    def hello(self, session: WorkerSession, hello: Hello, now_us: int) -> None:
        self._reception.hello(session, hello, now_us)

    def answered(self, session: WorkerSession, nonce: int) -> None:
        self._reception.answered(session, nonce)

    def gone(self, session: WorkerSession) -> None:
        """Heads whose bodies can no longer come end here; what has its body is still run and kept."""
        for job in list(session.jobs.values()):
            if not job.body_us and self.backlog.cancel(job):
                session.forget(job)
                self.metrics.frames.labels("lost").inc()
        self._reception.leave(session, self._clock_us())

    def pong(self, session: WorkerSession, ping: Ping, arrived_us: int) -> None:
        now_us = self._clock_us()
        session.send(
            Pong(
                nonce=ping.nonce,
                arrived_mono_us=arrived_us,
                resident_us=now_us - arrived_us,
                load=self.backlog.load(session.model, now_us),
                credit=self._credit,
            )
        )

    def batch(self, session: WorkerSession, batch: BulkBatch) -> None:
        if not self._intake.offer(session, batch):
            self.metrics.bulk.labels("dropped").inc()
            session.error(
                RejectReason.QUEUE_FULL, f"batch {batch.batch} dropped: too many wait; send it again later"
            )

    def ended(self, job: Job, outcome: Outcome) -> None:
        """A job of the backlog is over: say so, and keep what the model said."""
        job.origin.forget(job, body_may_come=True)
        if not isinstance(outcome, Detected):
            self.count_reject(outcome.reason)
            self._reply(job, reject_of(job, outcome.reason, outcome.text, self._load(job)))
            return
        now_us = self._clock_us()
        result = result_of(job, outcome, now_us=now_us, load=self.backlog.load(job.model, now_us))
        self._reply(job, result)  # whatever else is to be done about the frame is done behind its reply
        self.metrics.answered(job, now_us)
        self.writer.submit(Entry(far=[far_record(job, result)], to=job.origin, submitted_us=now_us))

    def count_reject(self, reason: RejectReason) -> None:
        self.metrics.frames.labels("rejected").inc()
        self.metrics.rejects.labels(reason.value).inc()

    def _load(self, job: Job) -> Load:
        return self.backlog.load(job.model, self._clock_us())

    def _reply(self, job: Job, message: Result | Reject) -> None:
        if job.origin.send(message):
            return
        other = self._reception.newest_live(job.id.agent, job.id.run, besides=job.origin)
        if other is None or not _send_renumbered(other, job.id.stream, message):
            self.metrics.undelivered.inc()

    def _acknowledge(self, entries: Sequence[Entry]) -> None:
        """Committed, or never to be: tell each connection what it may forget, in one message."""
        by_session: dict[WorkerSession, list[Entry]] = {}
        for entry in entries:
            assert isinstance(entry.to, WorkerSession)  # noqa: S101 - this service submitted it
            by_session.setdefault(entry.to, []).append(entry)
            source = "live" if entry.batch is None else "backfill"
            self.metrics.records.labels(source).inc(len(entry.far) + len(entry.given))
            self.metrics.set_aside.inc(entry.set_aside)
        for session, own in by_session.items():
            ids = [r.id for entry in own for r in (*entry.far, *entry.given)]
            batches = tuple(entry.batch for entry in own if entry.batch is not None)
            ack = Ack(records=ranges(ids), batches=batches)
            self.metrics.bulk.labels("committed").inc(len(batches))
            sent = session.send(ack)
            if not sent and not batches:
                other = self._reception.newest_live(session.agent, ids[0].run, besides=session)
                sent = other is not None and other.send(ack)
            if sent:
                self.metrics.acks.inc()
                self.metrics.acknowledged(min(entry.submitted_us for entry in own), self._clock_us())

    def _open_batch(self, session: WorkerSession, batch: BulkBatch) -> None:
        try:
            entry = batch_entry(session.agent, batch, self.limits)
        except Rejected as error:
            self.metrics.bulk.labels("refused").inc()
            session.error(RejectReason.BAD_PAYLOAD, f"batch {batch.batch}: {error}")
            return
        if not self.writer.submit(replace(entry, to=session, submitted_us=self._clock_us())):
            self.metrics.bulk.labels("dropped").inc()

    def _tick(self) -> None:
        while not self._stopping.wait(_TICK_S):
            self.tick(self._clock_us())


def _send_renumbered(session: WorkerSession, stream: str, message: Result | Reject) -> bool:
    """Send on another connection, whose Hello may number the streams differently."""
    names = [s.name for s in session.hello.streams] if session.hello else []
    return stream in names and session.send(replace(message, stream=names.index(stream)))
