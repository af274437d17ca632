"""Which methods a gRPC server has, by path; whatever else is called is counted."""

import logging
from collections.abc import Callable
from typing import Any

import grpc

log = logging.getLogger(__name__)


class Calls(grpc.GenericRpcHandler):
    """Methods by path."""

    def __init__(self, handlers: dict[str, Any]) -> None:
        self._handlers = handlers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(str(handler_call_details.method))


class Unknown(grpc.GenericRpcHandler):
    """Asked last: nobody has this method. gRPC answers so; we count."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
        log.debug("no such method: %s", handler_call_details.method)
        self._count()
