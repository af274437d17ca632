"""What every link passes on to its driver; a link of its own kind adds how bytes are sent and its thread is woken."""

from abc import ABC, abstractmethod
from typing import Any

from edge.links.driver import Driver
from protos.wire.session import Lane


class DrivenLink(ABC):
    """The part of `edge.links.base.Link` that is the same whatever carries the bytes."""

    _driver: Driver[Any]

    @abstractmethod
    def _wake(self) -> None:
        """Have the link's own thread look at its driver; from any thread."""

    def open_fresh(self, lane: Lane = Lane.LIVE) -> None:
        self._driver.ask_fresh(lane)
        self._wake()

    def refuse(self, connection: int, reason: str) -> None:
        self._driver.refuse(connection, reason)
        self._wake()

    def bytes_sent(self) -> int:
        return self._driver.bytes_sent()

    @property
    def attempts(self) -> int:
        """Connections tried so far on both lanes, welcomed or not."""
        return self._driver.attempts

    @property
    def unanswered(self) -> str:
        """Why the last attempt at the live lane found no worker that welcomed us; empty while one does."""
        return self._driver.unanswered

    @property
    def too_large(self) -> int:
        """Sends refused because the worker takes no message of that size."""
        return self._driver.too_large
