"""What the gRPC listener answers beside the lanes and health, by path: only what is asked for is loaded."""

from collections.abc import Callable
from typing import Any

from cloud.config import REFLECTION
from cloud.listeners.grpc_health import HEALTH
from cloud.listeners.grpc_infer import InferCalls
from cloud.simple import SimpleClients
from protos.wire import envelope


def methods_for_simple_clients(
    simple: SimpleClients | None,
    *,
    reflection: bool,
    clock_us: Callable[[], int],
    refused: Callable[[], None],
) -> dict[str, Any]:
    """`simple` None: there is no `Infer`. ConfigError, with the command that mends it, where reflection is not
    installed."""
    out: dict[str, Any] = {}
    if simple is not None:
        out |= InferCalls(simple, clock_us=clock_us, refused=refused).handlers()
    if reflection:
        out |= REFLECTION.resolve()((envelope.SERVICE, HEALTH)).handlers()
    return out
