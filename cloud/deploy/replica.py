"""One replica: a whole worker of its own whose listener is Serve's ingress. Knows nothing of Ray but its manners.

It has its own run, and the store and the models of all. Told to end, it does what a worker does on SIGTERM (admits no
frame, finishes and acknowledges what it has, ends its streams), so that Serve finds nothing left to wait for.
"""

import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from cloud.config import AUTO, load_worker
from cloud.deploy.busyness import Busyness
from cloud.deploy.scaling import BUSY
from cloud.deploy.serve_options import cores_of
from cloud.listeners.grpc.streams import StreamListener
from cloud.service import Service
from cloud.worker import Worker
from pipelines.errors import Fatal
from pipelines.runtime import monotonic_us, settle, tune
from protos.wire.session import Lane

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Packed:
    """A reply as Serve wants it: it asks every reply for its bytes."""

    data: bytes

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        return self.data


class Replica:
    """`worker`: the path of its file on this node. `told_to_end` is asked a few times a second.

    The names of its methods are Serve's, or those of `nearfar.v1.Inference`.
    """

    def __init__(
        self, worker: str, overrides: Sequence[str], told_to_end: Callable[[], bool] = lambda: False
    ) -> None:
        tune()
        self._ending = threading.Lock()
        self._ended = threading.Event()
        self._ended.set()  # until there is something to end
        config = load_worker(worker, overrides)
        cores = max(1, int(cores_of(config)))  # the node has more, and other replicas that take theirs
        self._config = config if config.threads != AUTO else config.model_copy(update={"threads": cores})
        self._worker = Worker(self._config, door=self._door)
        self._worker.start()
        settle()
        self._told_to_end = told_to_end
        self._ended.clear()
        threading.Thread(target=self._look, name="nearfar-replica", daemon=True).start()

    def _door(self, service: Service) -> StreamListener:
        self._service = service
        self._busyness = Busyness(
            service.metrics,
            instances={name: self._config.instances_of(name) for name in self._config.models},
            clock_us=monotonic_us,
        )
        self._listener = StreamListener(
            service,
            clock_us=monotonic_us,
            max_message_bytes=self._config.limits.message,
            max_age_us=self._config.ray.stream_for,
        )
        return self._listener

    async def Live(self, request_stream: AsyncIterator[bytes]) -> AsyncIterator[Packed]:  # noqa: N802
        async for data in self._listener.serve(Lane.LIVE, request_stream):
            yield Packed(data)

    async def Bulk(self, request_stream: AsyncIterator[bytes]) -> AsyncIterator[Packed]:  # noqa: N802
        async for data in self._listener.serve(Lane.BULK, request_stream):
            yield Packed(data)

    def check_health(self) -> None:
        """Serve replaces a replica that raises here. A store that cannot be reached is no reason: another replica could
        not reach it either, and answers are given without it."""
        if not self._ended.is_set() and (words := self._service.broken()):
            raise Fatal("; ".join(words))

    def record_autoscaling_stats(self) -> dict[str, float]:
        return {BUSY: self._busyness.share()}

    def store_fields(self) -> dict[str, str]:
        """Of the ready line."""
        fields = self._worker.ready_fields()
        return {name: fields[name] for name in ("store", "store_id") if name in fields}

    def metrics(self) -> tuple[str, str]:
        """Where it runs, for people, and what it counts, as Prometheus reads it."""
        return f"{socket.gethostname()}-{os.getpid()}", self._worker.metrics_text().decode()

    def not_ready(self) -> list[str]:
        return self._worker.not_ready()

    def __del__(self) -> None:
        """Serve calls this last, when no stream is left."""
        self.end()

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            if self._told_to_end():
                self.end()

    def end(self) -> None:
        """Drain and stop; whoever comes second waits for the first."""
        with self._ending:
            if self._ended.is_set():
                return
            clean = self._worker.drain()
            self._ended.set()
        log.info("the replica has ended, %s", "clean" if clean else "with work left over")
