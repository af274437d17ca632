"""Who is measured: name, where its server and client are, what it does and what it leaves out.

Nothing of a peer is imported here: what it needs may be in an environment of its own, or not there at all.
"""

import importlib
from dataclasses import dataclass
from typing import Any, Protocol, cast

from tests.bench.peers.base import Client, Serving


class Connect(Protocol):
    """What a client is made with."""

    def __call__(self, port: int) -> Client:
        """Connected and answered once when it returns, or able to send as soon as the server is up."""
        ...


_HERE = "tests.bench.peers"


@dataclass(frozen=True, kw_only=True)
class Peer:
    """`environment` names a file of requirements, and is None for ours; `windowed`: may have several on their way."""

    name: str
    module: str
    serving: str = "serving"
    client: str = "Client"
    environment: str | None
    windowed: bool = True
    judged: bool = True
    does: str

    def resolve_serving(self) -> Serving:
        return cast("Serving", self._resolve(self.serving))

    def resolve_client(self) -> Connect:
        return cast("Connect", self._resolve(self.client))

    def _resolve(self, name: str) -> Any:
        return getattr(importlib.import_module(f"{_HERE}.{self.module}"), name)


OURS_ZMQ, OURS_GRPC = "nearfar zmq", "nearfar grpc"

OURS = (
    Peer(
        name=OURS_ZMQ,
        module="nearfar_links",
        serving="serving_zmq",
        client="ZmqClient",
        environment=None,
        does="deadline, admission, fair queue, decode and detect as steps, durations in every reply, a record kept",
    ),
    Peer(
        name=OURS_GRPC,
        module="nearfar_links",
        serving="serving_grpc",
        client="GrpcClient",
        environment=None,
        does="the same over gRPC",
    ),
)
OTHERS = (
    Peer(
        name="imagezmq",
        module="image_zmq",
        environment="imagezmq",
        windowed=False,
        does="moves bytes, one frame at a time (REQ/REP); no deadline, queue, admission, record or reconnect",
    ),
    Peer(
        name="NetGear",
        module="netgear",
        environment="netgear",
        windowed=False,
        does="moves pixels, one frame at a time; a result comes with the reply to a later frame, here a nudge; "
        "no deadline, admission or record",
    ),
    Peer(
        name="NetGear, any reply",
        module="netgear",
        client="ReplyClient",
        environment="netgear",
        windowed=False,
        judged=False,
        does="the same, content with the reply to `send`, which tells of an earlier frame; not judged",
    ),
    Peer(
        name="Gabriel",
        module="gabriel",
        environment="gabriel",
        does="tokens hold frames back at the source; a server and an engine process, gRPC between all; "
        "no deadline, no record",
    ),
    Peer(
        name="tritonclient",
        module="triton",
        environment="triton",
        does="a real Triton server, CPU, with a Python model: queue, models, metrics; time-outs but no deadline "
        "of the source, no record",
    ),
    Peer(
        name="HTTP upload",
        module="http_upload",
        environment="http",
        does="FastAPI reads a multipart form, `requests` posts it, a thread and a connection per frame on its "
        "way; no deadline, admission or record",
    ),
)
PEERS = {peer.name: peer for peer in (*OURS, *OTHERS)}
