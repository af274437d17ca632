"""However a server in the middle ends a stream, the link says why in a line and is connected anew."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import grpc
import pytest

from edge.links.base import Connected, Disconnected
from protos.wire import envelope
from tests.support.endpoints import WELCOME
from tests.support.eventually import eventually
from tests.support.wires import Wire

PAGE = "The actor died unexpectedly.\n" + "\tclass_name: ServeReplica\n" * 40


class Ender(grpc.GenericRpcHandler):
    """Welcomes every stream; the first on each lane ends with `code` when it is told more than Hello."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code
        self.left = 2

    def service(self, _: object) -> Any:
        return grpc.stream_stream_rpc_method_handler(self._talk)

    def _talk(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        next(requests)
        yield envelope.pack_to_agent(WELCOME)
        self.left -= 1
        if self.left >= 0:
            context.abort(self._code, PAGE)
        for _ in requests:
            pass


@contextmanager
def ending(code: grpc.StatusCode) -> Iterator[int]:
    """Its port."""
    server = grpc.server(ThreadPoolExecutor(8), handlers=[Ender(code)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait(5)


@pytest.mark.parametrize("code", ["INTERNAL", "CANCELLED", "UNAVAILABLE", "NOT_FOUND", "RESOURCE_EXHAUSTED"])
def test_a_stream_that_is_ended_from_the_middle_is_opened_anew_and_the_reason_is_one_line(code: str) -> None:
    with ending(getattr(grpc.StatusCode, code)) as port, closing(Wire("grpc", port)) as wire:
        wire.wait(Disconnected, 2)
        wire.wait(Connected, 4)
        reasons = {e.reason for e in tuple(wire.events) if isinstance(e, Disconnected)}
        assert reasons == {f"{code.lower().replace('_', ' ')}: The actor died unexpectedly."}
        eventually(lambda: wire.link.attempts >= 4, what="its attempts")
