"""What every listener is: it moves messages between agents and the service, and names where it listens."""

from collections.abc import Sequence
from typing import Protocol

from protos.endpoint import Endpoint


class ServedEndpoint(Endpoint, Protocol):
    """The service, as a listener sees it that also says whether this worker is ready."""

    def not_ready(self) -> Sequence[str]:
        """Why this worker should get no new work, in words; empty when it is ready."""
        ...


class Listener(Protocol):
    """`address` is the bound one, with its scheme, after `start`."""

    @property
    def address(self) -> str: ...

    @property
    def refused_messages(self) -> int:
        """What could not be read, or was one connection too many."""
        ...

    def start(self) -> None:
        """Bind and serve. ConfigError, in words, when the address cannot be bound."""
        ...

    def stop(self) -> None:
        """Hand over what is queued, end every session and thread. Safe to call twice."""
        ...
