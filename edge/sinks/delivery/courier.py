"""Who brings parcels to a receiver, and what may come of it. A courier knows its protocol and nothing of queues."""

from collections.abc import Sequence
from typing import Protocol

from edge.sinks.delivery.parcel import Parcel
from pipelines.errors import Rejected, Retryable


class NotNowError(Retryable):
    """The receiver is away, busy or does not know us. `after_us`: how long it asked us to stay away, 0 = not said.
    `at_these`: it was there, and went away when it was given these parcels: one of them may be why."""

    def __init__(self, words: str, *, after_us: int = 0, at_these: bool = False) -> None:
        super().__init__(words)
        self.after_us = after_us
        self.at_these = at_these


class NeverError(Rejected):
    """The receiver will never take this. `reason` is one of few words, for a counter."""

    def __init__(self, words: str, *, reason: str) -> None:
        super().__init__(words)
        self.reason = reason


class Courier(Protocol):
    """Used by one thread, but `interrupt`."""

    def deliver(self, parcels: Sequence[Parcel]) -> int:
        """How many, from the first on, the receiver has taken: at least one, if not it raises NotNowError, or NeverError for
        all of them together. May block for its own timeout, and not longer."""
        ...

    def tend(self) -> int | None:
        """Nothing waits: keep the connection as the protocol wants it. When to be called again, in µs; None: never.
        Raises NotNowError."""
        ...

    def interrupt(self) -> None:
        """Come back at once from whatever blocks, now and from here on. From any thread."""
        ...

    def close(self) -> None:
        """Say farewell and let go. Never raises."""
        ...
