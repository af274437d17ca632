"""A worker process, built from its configuration: store, service, listeners.

    WorkerConfig ─→ record store ─→ Service ←─ ZeroMQ and gRPC listeners
                                       └─→ engine processes, where the file asks for some

`start` either leaves everything running or nothing; `drain` finishes what was admitted, commits and
acknowledges it, and closes all of it within the time given.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from cloud.config import WorkerConfig
from cloud.engine.engines import Engines
from cloud.engine.metrics import show_engines
from cloud.engine.of_worker import engines_of, in_engines
from cloud.keeping.storeroom import Storeroom
from cloud.limits import ServiceLimits
from cloud.listeners.base import Listener
from cloud.listeners.kinds import LISTENERS, GrpcListenConfig
from cloud.models.spec import model_specs
from cloud.models.thread_plan import thread_plan
from cloud.service import Service
from cloud.simple_clients import SimpleClients
from cloud.store.records import RecordStore, open_store
from cloud.store.writer import Entry
from pipelines.codecs.kinds import CODECS
from pipelines.errors import Retryable
from pipelines.listen import AddressConfig
from pipelines.registry import Kind
from pipelines.runtime import monotonic_us

log = logging.getLogger(__name__)

_CLOSING_US = 1_000_000
_SERVER_WITHIN_S = 30.0
_SERVER_STEP_S = 0.5
_LAST_WORDS_S = 0.5  # kept for the listeners to hand over what is queued, whatever the rest has taken


def _unix_us() -> int:
    return time.time_ns() // 1000


class Worker:
    """Raises ConfigError, Fatal or Retryable from `start` with words a person can act on. `door` makes the one listener
    that takes the place of those in `config`, for a server that is not ours."""

    def __init__(self, config: WorkerConfig, *, door: Callable[[Service], Listener] | None = None) -> None:
        self._config = config
        self._door = door
        self._store: RecordStore | None = None
        self._service: Service | None = None
        self._storeroom: Storeroom | None = None
        self._engines: Engines | None = None
        self._listeners: dict[str, Listener] = {}
        self.left_behind: list[str] = []

    def start(self) -> None:
        try:
            self._start()
        except BaseException:
            self._close()
            raise

    def ready_fields(self) -> dict[str, Any]:
        """What the ready line says: bound addresses, the store, and engine processes if there are any."""
        assert self._store is not None  # noqa: S101 - called after start
        fields = {
            "name": self._config.name,
            **{name: listener.address for name, listener in self._listeners.items()},
            "store": self._store.url,
            "store_id": self._store.store_id,
            "engines": None if self._engines is None else self._engines.pids(),
        }
        return {name: value for name, value in fields.items() if value is not None}

    def not_ready(self) -> list[str]:
        """Why this worker should get no new work, in words; empty when it is ready. From any thread, at any time."""
        service = self._service
        if service is None:
            return ["it is not running"]
        reasons, engines = service.not_ready(), self._engines
        if engines is not None:
            trouble = engines.trouble()
            reasons += trouble if reasons or len(trouble) == self._config.processes else []
        return reasons + [words for listener in tuple(self._listeners.values()) for words in listener.trouble]

    def degraded(self) -> list[str]:
        """What does not work while others do its work, in words. From any thread, at any time."""
        engines, service = self._engines, self._service
        trouble = [] if engines is None else engines.trouble()
        if trouble or service is None:  # an engine says why its models are missing
            return trouble
        return service.degraded()

    def metrics_text(self) -> bytes:
        """As Prometheus reads it; empty before the service is made and after it has ended."""
        service = self._service
        return b"" if service is None else service.metrics.text()

    def drain(self, timeout_us: int | None = None) -> bool:
        """Stop within `timeout_us` (default: `drain` of the configuration); False if work was left over.

        Whatever hangs, it returns at most 0.5 s later. `left_behind` then names the threads that still run, inside C
        code or the disk: end the process without waiting for them.
        """
        allowed_us = self._config.drain if timeout_us is None else timeout_us
        until_us = monotonic_us() + allowed_us
        # closing takes its part of the time, so that the promise holds for the process as a whole
        clean = self._service is None or self._service.drain(max(allowed_us - _CLOSING_US, allowed_us // 2))
        if self._storeroom is not None:
            self._storeroom.drain(max(0, until_us - _CLOSING_US - monotonic_us()))
        if not clean:
            log.warning("drained only in part: the time of %.1f s was not enough", allowed_us / 1e6)
        self._close((until_us - monotonic_us()) / 1e6)
        return clean

    def _start(self) -> None:
        config = self._config
        plan = thread_plan(config)
        if plan.warning:
            log.warning("%s", plan.warning)
        self._engines = engines_of(config, plan)
        if self._engines is not None:
            self._engines.start()  # first: they load while the store is opened
        self._store = record_store_at(config.store.url)
        codecs = {codec.name: codec for codec in (kind.resolve()() for kind in CODECS)}
        limits = ServiceLimits(
            streams=config.per_agent.streams,
            frames_in_flight=config.per_agent.frames_in_flight,
            bytes_in_flight=config.per_agent.bytes_in_flight,
            shrink_above_us=config.per_agent.shrink_above,
            queue_frames=config.queue.max_frames,
            queue_bytes=config.queue.max_bytes,
            message_bytes=config.limits.message,
            pixels=config.limits.pixels,
            decompressed_bytes=config.limits.decompressed,
            detections=config.limits.detections,
            batch_records=config.limits.batch_records,
        )
        self._storeroom = Storeroom(
            config.store, self._store, limits=limits, codecs=codecs, clock_us=monotonic_us, unix_us=_unix_us
        )
        models = model_specs(config, plan)
        if self._engines is not None:
            models = in_engines(models, self._engines, processes=config.processes)
        self._service = Service(
            models=models,
            default_model=config.default_model,
            codecs=codecs,
            store=self._store,
            store_id=self._store.store_id,
            clock_us=monotonic_us,
            unix_us=_unix_us,
            limits=limits,
            decode_threads=plan.decode,
            commit_every_us=config.store.commit_every,
            live_payloads=self._storeroom.live,
            uploads=self._storeroom.uploads,
        )
        metrics = self._service.metrics
        metrics.describe(name=config.name, store_id=self._store.store_id)
        self._service.start()
        if self._store.trouble:  # frames are answered all the same; tried until there is room
            self._service.writer.submit(Entry())
        if self._storeroom.writer is not None:
            self._storeroom.writer.give_way_to(self._service.backlog.give_way)
        self._storeroom.start()
        self._storeroom.show(metrics)
        show_engines(metrics.registry, lambda: [] if self._engines is None else self._engines.states())
        metrics.counter(
            "nearfar_worker_refused_messages",
            "Messages that could not be read, or came from one connection too many.",
            lambda: sum(listener.refused_messages for listener in tuple(self._listeners.values())),
        )
        metrics.counter(
            "nearfar_worker_listener_faults",
            "Turns of a listener that failed in a way nobody foresaw; it goes on, and the log says why.",
            lambda: sum(listener.faults for listener in tuple(self._listeners.values())),
        )
        if self._door is not None:
            self._listeners["door"] = self._door(self._service)
            return
        for kind in LISTENERS:
            where: AddressConfig | None = getattr(config.listen, kind.name)
            if where is not None:
                self._listen(kind, where, self._service)

    def _listen(self, kind: Kind, where: AddressConfig, service: Service) -> None:
        own: dict[str, Any] = {}
        if isinstance(where, GrpcListenConfig):
            own["simple"] = SimpleClients(service, clock_us=monotonic_us)
            own["reflection"] = where.reflection
        listener: Listener = kind.resolve()(
            service,
            address=where.address,
            clock_us=monotonic_us,
            max_message_bytes=self._config.limits.message,
            **own,
        )
        listener.start()
        self._listeners[kind.name] = listener

    def _close(self, within_s: float = 1.0) -> None:
        until_s = time.monotonic() + max(within_s, _LAST_WORDS_S)
        if self._service is not None:
            self._service.build_no_more()
        if self._engines is not None:
            self._engines.stop()  # what still runs in them ends now, and so do the threads that wait for it
        if self._service is not None:
            self._service.stop(max(0.0, until_s - _LAST_WORDS_S - time.monotonic()))
            self.left_behind += self._service.left_behind
        if self._storeroom is not None:
            self.left_behind += self._storeroom.stop(max(0.0, until_s - _LAST_WORDS_S - time.monotonic()))
        for listener in self._listeners.values():
            listener.halt()
        for listener in self._listeners.values():
            listener.stop(max(0.0, until_s - time.monotonic()))
            self.left_behind += listener.left_behind
        if self.left_behind:
            log.warning("left behind at the end: %s", ", ".join(self.left_behind))
        if self._store is not None and not self.left_behind:  # else somebody may still write
            self._store.close()
        self._service = self._store = self._storeroom = self._engines = None
        self._listeners = {}


def record_store_at(url: str) -> RecordStore:
    """The record store. One on a server is waited for: after a power cut it may start later than its workers."""
    until_s = time.monotonic() + (0.0 if url.startswith("sqlite") else _SERVER_WITHIN_S)
    said = False
    while True:
        try:
            return open_store(url)
        except Retryable as error:
            if time.monotonic() > until_s:
                raise
            if not said:
                log.warning("%s; waiting up to %.0f s for it", error, _SERVER_WITHIN_S)
            said = True
            time.sleep(_SERVER_STEP_S)
