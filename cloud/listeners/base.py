"""What every listener is: it moves messages between agents and the service, and names where it listens."""

from collections.abc import Sequence
from typing import Protocol

from protos.endpoint import Endpoint

STOP_WITHIN_S = 2.0


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

    @property
    def faults(self) -> int:
        """Turns that failed in a way nobody foresaw; it goes on, and the log says why."""
        ...

    @property
    def trouble(self) -> list[str]:
        """Why no agent can be served here, in words; empty when one can."""
        ...

    @property
    def left_behind(self) -> list[str]:
        """Threads that did not end within the time of `stop`."""
        ...

    def start(self) -> None:
        """Bind and serve. ConfigError, in words, when the address cannot be bound."""
        ...

    def halt(self) -> None:
        """Begin to stop: returns at once. Safe to call twice."""
        ...

    def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        """Hand over what is queued, end every session and thread, within this time. Safe to call twice."""
        ...
