"""`grpc.health.v1` of a worker: SERVING exactly while nothing speaks against new work.

Known under "" and under the service's own name; `Check` and `Watch` as every health client calls them.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2  # type: ignore[import-untyped]

from cloud.listeners.grpc.single import SingleRequests
from protos.wire import envelope

HEALTH = str(health.SERVICE_NAME)
MOST_WATCHERS = 8  # each holds a thread of the server's pool
MOST_CHECKS = 256  # at a time; each takes no time once its request has come
_REQUEST_WITHIN_US = 2_000_000
"""For the few bytes of a request: who watches over a worker must not find its places taken by strangers."""


class HealthCalls:
    """`not_ready` gives the reasons against new work; `look` tells those who watch of a change."""

    def __init__(
        self, not_ready: Callable[[], Sequence[str]], *, clock_us: Callable[[], int], silent_us: int
    ) -> None:
        self._not_ready = not_ready
        self._clock_us = clock_us
        self._requests = SingleRequests(
            most=MOST_CHECKS, silent_us=min(silent_us, _REQUEST_WITHIN_US), clock_us=clock_us
        )
        self._places = threading.Semaphore(MOST_WATCHERS)
        self._lock = threading.Lock()
        self._serving: bool | None = None
        self._servicer = health.HealthServicer(experimental_non_blocking=False)
        self._servicer.set("", health_pb2.HealthCheckResponse.NOT_SERVING)

    def handlers(self) -> dict[str, Any]:
        """The service's methods by path."""
        status = health_pb2.HealthCheckResponse.SerializeToString
        asked = health_pb2.HealthCheckRequest.FromString
        path = f"/{health.SERVICE_NAME}"
        return {
            f"{path}/Check": grpc.stream_unary_rpc_method_handler(self._check, asked, status),
            f"{path}/Watch": grpc.stream_stream_rpc_method_handler(self._watch, asked, status),
        }

    def look(self) -> None:
        self._requests.look(self._clock_us())
        serving = not self._not_ready()
        with self._lock:
            if serving is self._serving:
                return
            self._serving = serving
            status = health_pb2.HealthCheckResponse
            for name in ("", envelope.SERVICE):
                self._servicer.set(name, status.SERVING if serving else status.NOT_SERVING)

    def stop(self) -> None:
        """NOT_SERVING from now on."""
        self._servicer.enter_graceful_shutdown()

    def _check(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        with self._requests.place() as there:
            if there:
                asked = self._requests.take(requests, context, none=health_pb2.HealthCheckRequest())
                self.look()
                return self._servicer.Check(asked, context)
        words = f"{MOST_CHECKS} clients check this worker's health already; come back"
        return context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, words)

    def _watch(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        if not self._places.acquire(blocking=False):
            words = f"{MOST_WATCHERS} clients watch this worker's health already; ask Check instead"
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, words)
        if not context.add_callback(self._places.release):
            self._places.release()
        asked = self._requests.take(requests, context, none=health_pb2.HealthCheckRequest())
        self.look()
        return self._servicer.Watch(asked, context)
