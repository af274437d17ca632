"""The worker without a transport: listeners open sessions on it and move bytes, it does the rest.

    head ─→ admit ─→ body ─→ EDF queue ─→ decode ─→ detect ─→ reply, then record store ─→ ack after commit
    batch ─→ unpack (own thread) ─────────────────────────────────────→ record store ─→ ack after commit
    payload ─→ part file (own thread) ────────────────────────────────→ payload store ─→ ack after commit

Every admitted head ends as exactly one of: result, reject, cancelled, lost with its connection. Replies go
back on the connection a frame came from or, if that is gone, on the newest live one of the same run.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cloud import gauges
from cloud.acknowledger import Acknowledger
from cloud.backfill import Backfill
from cloud.backlog import Backlog
from cloud.decoding import DecodePool
from cloud.jobs import EXPIRED, STOPPED, Detected, Job, Outcome
from cloud.ledger import Ledger
from cloud.limits import ServiceLimits
from cloud.live_payloads import LivePayloads
from cloud.metrics import WorkerMetrics
from cloud.models import ModelHost, ModelSpec
from cloud.reception import Reception
from cloud.replies import FarRecord, reject_of, result_of
from cloud.scheduling.admission import PayloadLimits
from cloud.scheduling.credits import Credits
from cloud.session import WorkerSession
from cloud.store.writer import Entry, Store, StoreWriter
from cloud.threads import dead, left_after
from cloud.uploads import Uploads
from cloud.workshop import Lead
from pipelines.codecs.base import Codec, PictureLimits
from pipelines.result import Load
from protos.endpoint import Peer
from protos.wire.bulk import BulkBatch, Have
from protos.wire.live import Reject, Result
from protos.wire.session import Credit, Hello, Ping, Pong, RejectReason

log = logging.getLogger(__name__)

_TICK_S = 0.05
STOP_WITHIN_S = 2.0


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
        live_payloads: LivePayloads | None = None,
        uploads: Uploads | None = None,
    ) -> None:
        self._live_payloads = live_payloads
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
            work=self.backlog.work,
            clock_us=clock_us,
            failed=lambda: self.metrics.fault("decode"),
        )
        self._hosts = {
            spec.name: ModelHost(
                spec,
                work=self.backlog.work,
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
            payload_bytes=0 if uploads is None else uploads.payload_bytes,
        )
        self.writer = StoreWriter(
            self.metrics.timed(store, clock_us),
            commit_every_us=commit_every_us,
            acknowledge=Acknowledger(reception=self._reception, metrics=self.metrics, clock_us=clock_us),
            clock_us=clock_us,
            unix_us=unix_us,
        )
        self._backfill = Backfill(
            writer=self.writer, limits=limits, metrics=self.metrics, clock_us=clock_us, uploads=uploads
        )
        self.left_behind: list[str] = []
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
    def keeps_pictures(self) -> bool:
        """Whether a live frame's picture may be wanted after it was answered."""
        return self._live_payloads is not None and self._live_payloads.wants_any

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
        self._backfill.start()
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
        else:
            out += dead(self._threads())
        return out

    def drain(self, timeout_us: int) -> bool:
        """Admit nothing more, finish what was admitted, commit and acknowledge it; False if time ran out."""
        until_us = self._clock_us() + timeout_us
        finished = self.backlog.drain(timeout_us)
        self._backfill.finish(max(0, until_us - self._clock_us()) / 1e6)
        return self.writer.flush(max(0, until_us - self._clock_us())) and finished

    def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        """End every thread; what never ran is rejected as draining. `left_behind` names those that did not end in time:
        they are inside a detector or the disk, and only the end of the process ends them."""
        self._stopping.set()
        for host in self._hosts.values():
            host.halt()
        for job in self.backlog.stop():
            self.ended(job, STOPPED)
        self._backfill.halt()
        self.writer.halt()
        self.left_behind = left_after(self._threads(), within_s)

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

    def bulk(self, session: WorkerSession, message: BulkBatch | Have) -> None:
        self._backfill.receive(session, message)

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
        self.metrics.answered(job, now_us, detect_us=outcome.detect_us)
        self.writer.submit(Entry(far=FarRecord(job, result), to=job.origin, submitted_us=now_us))
        if self._live_payloads is not None:
            self._live_payloads.offer(job, result.detections, now_us=now_us)

    def run(self, lead: Lead) -> None:
        """Run a frame on the caller's thread; returns when it is answered."""
        self._hosts[lead.job.model].run(lead)

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

    def _tick(self) -> None:
        while not self._stopping.wait(_TICK_S):
            try:
                self.tick(self._clock_us())
            except Exception:
                self.metrics.fault("timer")
                log.exception("what time brings could not be done, and is tried again")

    def _threads(self) -> list[threading.Thread]:
        models = [thread for host in self._hosts.values() for thread in host.threads]
        return [*models, *self._decoding.threads, self._backfill.thread, self.writer.thread, self._timer]


def _send_renumbered(session: WorkerSession, stream: str, message: Result | Reject) -> bool:
    """Send on another connection, whose Hello may number the streams differently."""
    names = [s.name for s in session.hello.streams] if session.hello else []
    return stream in names and session.send(replace(message, stream=names.index(stream)))
