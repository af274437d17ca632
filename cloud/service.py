"""The worker without a transport: listeners open sessions on it and move bytes, it does the rest.

    head ─→ admit ─→ body ─→ queue* ─→ decode ─→ detect ─→ reply, then record store ─→ ack after commit
    batch ─→ unpack (own thread) ─────────────────────────────────────→ record store ─→ ack after commit
    payload ─→ part file (own thread) ────────────────────────────────→ payload store ─→ ack after commit
    * agents share it fairly, the earliest deadline of each is next

Every admitted head ends as exactly one of: result, reject, cancelled, lost with its connection.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from cloud.agents.reception import Reception
from cloud.agents.session import WorkerSession
from cloud.backlog.decoding import DecodePool
from cloud.backlog.front import Backlog
from cloud.backlog.jobs import EXPIRED, STOPPED, Job, Outcome
from cloud.backlog.lead import Lead
from cloud.backlog.ledger import Ledger
from cloud.keeping.backfill import Backfill
from cloud.keeping.live_payloads import LivePayloads
from cloud.keeping.uploads import Uploads
from cloud.limits import ServiceLimits
from cloud.models.host import ModelHost
from cloud.models.spec import ModelSpec
from cloud.replying.acknowledger import Acknowledger
from cloud.replying.outcomes import Outcomes
from cloud.scheduling.admission import PayloadLimits
from cloud.scheduling.credits import Credits
from cloud.store.writer import Store, StoreWriter
from cloud.telemetry import gauges
from cloud.telemetry.metrics import WorkerMetrics
from cloud.threads import dead, left_after
from pipelines.codecs.base import Codec, PictureLimits
from protos.endpoint import Peer
from protos.wire.bulk import BulkBatch, Have
from protos.wire.session import Credit, Hello, ModelInfo, Ping, Pong, RejectReason

log = logging.getLogger(__name__)

_TICK_US = 50_000
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
            {spec.name: spec.lane(decoders=decode_threads) for spec in models},
            ledger=Ledger(
                limits=PayloadLimits(
                    message_bytes=limits.message_bytes,
                    pixels=limits.pixels,
                    decompressed_bytes=limits.decompressed_bytes,
                ),
                credit=Credits(
                    frames=limits.frames_in_flight,
                    size_bytes=limits.bytes_in_flight,
                    models=[spec.name for spec in models],
                    long_queue_us=limits.shrink_above_us,
                ),
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
        self.default_model = default_model
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
            models=lambda: self.models,
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
        self._outcomes = Outcomes(
            backlog=self.backlog,
            reception=self._reception,
            writer=self.writer,
            live_payloads=live_payloads,
            metrics=self.metrics,
            clock_us=clock_us,
        )
        self._backfill = Backfill(
            writer=self.writer,
            limits=limits,
            metrics=self.metrics,
            clock_us=clock_us,
            give_way=self.backlog.give_way,
            uploads=uploads,
        )
        self.left_behind: list[str] = []
        self._stopping = threading.Event()
        self._timer = threading.Thread(target=self._tick, name="nearfar-timer", daemon=True)
        gauges.show(
            self.metrics,
            backlog=self.backlog,
            hosts=self._hosts.values(),
            reception=self._reception,
            writer=self.writer,
            clock_us=clock_us,
        )

    @property
    def keeps_pictures(self) -> bool:
        """Whether a live frame's picture may be wanted after it was answered."""
        return self._live_payloads is not None and self._live_payloads.wants_any

    @property
    def models(self) -> Mapping[str, ModelInfo]:
        return {name: host.info for name, host in self._hosts.items()}

    def run_of(self, agent: str) -> bytes | None:
        """The run of the connected agent of this name."""
        return self._reception.run_of(agent)

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
        missing = self.backlog.models_not_ready()
        out = [self._hosts[name].repairs.words or f"model {name} is not loaded" for name in missing]
        out += filter(None, [self.writer.trouble])
        if self.backlog.draining:
            out.append("draining")
        else:
            out += dead(self._threads())
        return out

    def degraded(self) -> list[str]:
        """What does not work while the rest of its model does its work, in words."""
        there = self._hosts.keys() - self.backlog.models_not_ready()
        return sorted(words for name in there if (words := self._hosts[name].repairs.words))

    def broken(self) -> list[str]:
        """What only a new start of this worker mends, in words; empty when there is nothing."""
        return [] if self.backlog.draining else dead(self._threads())

    def drain(self, timeout_us: int) -> bool:
        """Admit nothing more, finish what was admitted, commit and acknowledge it; False if time ran out."""
        until_us = self._clock_us() + timeout_us
        finished = self.backlog.drain(timeout_us)
        self._backfill.finish(max(0, until_us - self._clock_us()) / 1e6)
        return self.writer.flush(max(0, until_us - self._clock_us())) and finished

    def build_no_more(self) -> None:
        """A model that breaks from now on stays broken: its engines are about to be ended."""
        for host in self._hosts.values():
            host.halt()

    def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        """End every thread; what never ran is rejected as draining. `left_behind` names those that did not end in time:
        they are inside a detector or the disk, and only the end of the process ends them."""
        self._stopping.set()
        self.build_no_more()
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

    def turned_away(self, arrived_us: int) -> None:
        self.metrics.turned_away(self._clock_us() - arrived_us)

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
        load = self.backlog.load(session.model, now_us, told=session.live_agent)
        window = Credit(frames=load.window_frames, bytes=self._credit.bytes) if load.window_frames else None
        session.send(
            Pong(
                nonce=ping.nonce,
                arrived_mono_us=arrived_us,
                resident_us=now_us - arrived_us,
                load=load,
                credit=window,
            )
        )

    def bulk(self, session: WorkerSession, message: BulkBatch | Have) -> None:
        self._backfill.receive(session, message)

    def ended(self, job: Job, outcome: Outcome) -> None:
        """A job of the backlog is over."""
        self._outcomes.ended(job, outcome)

    def run(self, lead: Lead) -> None:
        """Run a frame on the caller's thread; returns when it is answered."""
        self._hosts[lead.job.model].run(lead)

    def count_reject(self, reason: RejectReason) -> None:
        self._outcomes.count_reject(reason)

    def _tick(self) -> None:
        # A frame whose time is over keeps its agent's credit until it is told: no longer than its alarm allows.
        while True:
            self.backlog.sleep(self.backlog.may_sleep_us(self._clock_us(), _TICK_US))
            if self._stopping.is_set():
                return
            try:
                self.tick(self._clock_us())
            except Exception:
                self.metrics.fault("timer")
                log.exception("what time brings could not be done, and is tried again")

    def _threads(self) -> list[threading.Thread]:
        models = [thread for host in self._hosts.values() for thread in host.threads]
        return [*models, *self._decoding.threads, self._backfill.thread, self.writer.thread, self._timer]
