"""What the gRPC listener answers beside the lanes and health: only what is asked for is loaded."""

from collections.abc import Callable
from typing import Any

from cloud.listeners.grpc.health import HEALTH
from cloud.listeners.grpc.infer import InferCalls
from cloud.listeners.kinds import REFLECTION
from cloud.simple_clients import SimpleClients
from protos.wire import envelope


class SimpleMethods:
    """`handlers` by path. `simple` None: there is no `Infer`. ConfigError, with the command that mends it, where
    reflection is not installed."""

    def __init__(
        self,
        simple: SimpleClients | None,
        *,
        reflection: bool,
        clock_us: Callable[[], int],
        refused: Callable[[], None],
        silent_us: int,
    ) -> None:
        self.handlers: dict[str, Any] = {}
        self._infer: InferCalls | None = None
        if simple is not None:
            self._infer = InferCalls(simple, clock_us=clock_us, refused=refused, silent_us=silent_us)
            self.handlers |= self._infer.handlers()
        if reflection:
            self.handlers |= REFLECTION.resolve()((envelope.SERVICE, HEALTH)).handlers()

    def look(self, now_us: int) -> None:
        """End calls that are silent."""
        if self._infer is not None:
            self._infer.look(now_us)
