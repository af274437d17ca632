"""A link: the way to one worker, with a live and a bulk lane, each its own connection.

A link only moves messages and reports. It never blocks its caller, never decides what is sent, and
reconnects by itself for ever with backoff ≤ 2 s, resolving names anew; `open_fresh` adds a connection
while the scheduler believes the present one dead. Every send ends as one of `Sent`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from protos.wire.messages import ToAgent, ToWorker
from protos.wire.session import Error, Hello, Lane, Welcome


class Sent(StrEnum):
    """What became of a send. Only `accepted` messages may be answered."""

    ACCEPTED = "accepted"
    FULL = "full"  # a bounded queue below is full: the frame is not sent, the caller goes on
    DOWN = "down"  # no connection has been welcomed on this lane
    TOO_LARGE = "too_large"  # above the worker's `limits.message_bytes`: it would cost the connection


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection was welcomed. `connection` numbers the connections of a link, rising."""

    lane: Lane
    connection: int
    welcome: Welcome


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The lane has no welcomed connection any more; frames sent on `connection` may be lost."""

    lane: Lane
    connection: int
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A worker refused our Hello with words. The link keeps trying if `error.retry`, every 2 s if not."""

    lane: Lane
    error: Error


@dataclass(frozen=True, slots=True)
class Received:
    """A message from the worker, stamped by the gateway's monotonic clock when it arrived."""

    lane: Lane
    connection: int
    message: ToAgent
    arrived_us: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """An accepted message could not be handed to the network after all (the queue below was full)."""

    lane: Lane
    message: ToWorker


LinkEvent = Connected | Disconnected | Refused | Received | Dropped
Deliver = Callable[[LinkEvent], None]


class Link(Protocol):
    """One link. Methods may be called from any thread and return at once; `deliver` is called from the
    link's own threads, one event at a time, and must not block."""

    @property
    def name(self) -> str: ...

    def start(self, hello: Hello, deliver: Deliver) -> None:
        """Connect both lanes; `hello.lane` is replaced per lane, and the bulk lane asks for no model."""
        ...

    def send(self, *messages: ToWorker, lane: Lane = Lane.LIVE) -> Sent:
        """Queue messages in order, all or none, on the newest welcomed connection of a lane."""
        ...

    def open_fresh(self, lane: Lane = Lane.LIVE) -> None:
        """Add a connection of `lane` beside those that exist (at most 4); the first Welcome wins, replies on
        older ones still count until they close."""
        ...

    def refuse(self, connection: int, reason: str) -> None:
        """The owner has no use for the worker that a welcomed connection leads to: it is closed. An older one
        that still serves takes its place in silence; without one the lane is `Disconnected` for `reason`, and
        tried again after 2 s."""
        ...

    def bytes_sent(self) -> int:
        """Bytes handed to the network so far on both lanes."""
        ...

    @property
    def bad_messages(self) -> int:
        """Messages that came and were none of the protocol's."""
        ...

    @property
    def attempts(self) -> int:
        """Connections tried so far on both lanes, welcomed or not."""
        ...

    @property
    def unanswered(self) -> str:
        """Why the last attempt at the live lane found no worker that welcomed us; empty while one does."""
        ...

    @property
    def too_large(self) -> int:
        """Sends refused because the worker takes no message of that size."""
        ...

    def close(self) -> None:
        """Say Goodbye, close every connection and end the thread within 0.5 s."""
        ...
