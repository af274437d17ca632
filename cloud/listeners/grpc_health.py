"""`grpc.health.v1` of a worker: SERVING exactly while nothing speaks against new work.

Known under "" and under the service's own name; `Check` and `Watch` as every health client calls them.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2  # type: ignore[import-untyped]

from protos.wire import envelope

HEALTH = str(health.SERVICE_NAME)
MOST_WATCHERS = 8  # each holds a thread of the server's pool


class HealthCalls:
    """`not_ready` gives the reasons against new work; `look` tells those who watch of a change."""

    def __init__(self, not_ready: Callable[[], Sequence[str]]) -> None:
        self._not_ready = not_ready
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
            f"{path}/Check": grpc.unary_unary_rpc_method_handler(self._check, asked, status),
            f"{path}/Watch": grpc.unary_stream_rpc_method_handler(self._watch, asked, status),
        }

    def look(self) -> None:
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

    def _check(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.look()
        return self._servicer.Check(request, context)

    def _watch(self, request: Any, context: grpc.ServicerContext) -> Any:
        if not self._places.acquire(blocking=False):
            words = f"{MOST_WATCHERS} clients watch this worker's health already; ask Check instead"
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, words)
        if not context.add_callback(self._places.release):
            self._places.release()
        self.look()
        return self._servicer.Watch(request, context)
