"""Server reflection: clients such as grpcurl list what there is here and call it without the contract at hand.

Answered as `grpc.reflection.v1` and as `v1alpha`, which say the same bytes under two names. Each asker holds a thread
of the server's pool for as long as it likes, so there are `MOST_ASKERS` places.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2  # type: ignore[import-untyped]

MOST_ASKERS = 4
_PATHS = tuple(
    f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha")
)


class ReflectionCalls:
    """`services`: full names, beside reflection's own."""

    def __init__(self, services: Sequence[str]) -> None:
        self._places = threading.Semaphore(MOST_ASKERS)
        self._servicer = reflection.ReflectionServicer((*services, reflection.SERVICE_NAME))

    def handlers(self) -> dict[str, Any]:
        """The service's method by its paths."""
        handler = grpc.stream_stream_rpc_method_handler(
            self._info,
            reflection_pb2.ServerReflectionRequest.FromString,
            reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        return dict.fromkeys(_PATHS, handler)

    def _info(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        if not self._places.acquire(blocking=False):
            words = f"{MOST_ASKERS} clients ask this worker already; close one of them"
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, words)
        if not context.add_callback(self._places.release):
            self._places.release()
        return iter(self._servicer.ServerReflectionInfo(requests, context))
