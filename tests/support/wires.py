"""A link of one kind to an address, with what it reported; and a gRPC listener with a scripted worker behind it."""

from collections.abc import Iterator
from contextlib import contextmanager

from cloud.listeners.grpc.listener import GrpcListener
from edge.links.base import Link, LinkEvent
from edge.links.kinds import LINKS
from pipelines.runtime import monotonic_us
from tests.support.agents import HELLO
from tests.support.endpoints import ScriptedEndpoint
from tests.support.eventually import eventually

GrpcWorker = tuple[ScriptedEndpoint, GrpcListener]


class Wire:
    """`kind` is the scheme of the link's URL."""

    def __init__(self, kind: str, port: int, host: str = "127.0.0.1") -> None:
        self.events: list[LinkEvent] = []
        self.link: Link = LINKS[kind].resolve()(
            name="cable", url=f"{kind}://{host}:{port}", clock_us=monotonic_us
        )
        self.link.start(HELLO, self.events.append)

    def count(self, kind: type) -> int:
        return sum(isinstance(e, kind) for e in tuple(self.events))

    def wait(self, kind: type, count: int, within_s: float = 5.0) -> None:
        eventually(lambda: self.count(kind) >= count, within_s, f"{count} {kind.__name__} in {self.events}")

    def close(self) -> None:
        self.link.close()


@contextmanager
def grpc_worker() -> Iterator[GrpcWorker]:
    endpoint = ScriptedEndpoint()
    listener = GrpcListener(endpoint, address="127.0.0.1:0", clock_us=monotonic_us, max_message_bytes=100_000)
    listener.start()
    yield endpoint, listener
    listener.stop()
