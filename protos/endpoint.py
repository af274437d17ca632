"""The seam between transport and service: what a listener calls and what it offers.

A listener (or the memory link) opens one `Session` per connection and hands it each message; the
service answers through the `Peer`. Neither side knows how bytes travel.
"""

from typing import Protocol

from protos.wire.messages import ToAgent, ToWorker


class Peer(Protocol):
    """One connected agent lane, as the service sees it. Callable from any thread; never blocks."""

    def send(self, message: ToAgent) -> bool:
        """Queue a message; False if the peer is gone or its queue is full."""
        ...

    def close(self) -> None:
        """Forget the connection after what is queued has been handed over."""
        ...


class Run(Protocol):
    """A frame that the thread which brought it may run itself. To be called once."""

    @property
    def quick(self) -> bool:
        """Whether such frames take less than it costs to have another thread read on."""
        ...

    def __call__(self) -> None:
        """Run and answer it; takes as long as the model."""
        ...


class Session(Protocol):
    """One connection, as a listener sees it. Called by one thread at a time."""

    @property
    def agent(self) -> str:
        """The name its Hello gave, empty before."""
        ...

    def receive(self, message: ToWorker, arrived_us: int) -> None:
        """A message arrived at `arrived_us` of the worker's monotonic clock."""
        ...

    def receive_or_run(self, message: ToWorker, arrived_us: int) -> Run | None:
        """The same for a caller that would run a frame on its own thread, and is given it if nothing is before it."""
        ...

    def refuse(self, text: str) -> None:
        """Something that is no message arrived; count it and answer with words."""
        ...

    def closed(self) -> None:
        """The connection is gone."""
        ...


class Endpoint(Protocol):
    """What connections are opened on."""

    def open(self, peer: Peer) -> Session: ...
